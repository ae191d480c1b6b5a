#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

namespace uzram::base {
namespace {

spdlog::level::level_enum level_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Never destroyed: threads may log while the process ends.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger("uzram", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) noexcept {
  try {
    logger().set_level(level_of(level));
  } catch (...) {  // no memory for the logger: nothing will be logged either
  }
}

void log(LogLevel level, std::string_view line) noexcept {
  try {
    logger().log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {  // a log that fails must not take its caller down
  }
}

bool LogLimiter::log(LogLevel level, std::string_view line, Clock::time_point now) noexcept {
  std::uint64_t held_back = 0;
  {
    const MutexLock lock(mutex_);
    if (now - second_start_ >= std::chrono::seconds(1)) {
      second_start_ = now;
      lines_ = 0;
      held_back = std::exchange(held_back_, 0);
    }
    if (lines_ >= lines_per_second_) {
      ++held_back_;
      return false;
    }
    ++lines_;
  }
  if (held_back > 0) {
    try {
      base::log(level, std::to_string(held_back) + " lines like the next one were held back");
    } catch (...) {  // no memory to say so
    }
  }
  base::log(level, line);
  return true;
}

}  // namespace uzram::base
