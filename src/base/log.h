// The log: lines for the operator, on standard error.
//
// What: `log` writes one line with time and level. What a client can provoke goes through a
//   LogLimiter, so that no client fills the disk that the log is on.
// Units: lines per second. Ownership: one log for the process; a limiter belongs to whom it limits.
// Threading: everything here may be called from any thread. Errors: a line that can't be written is
//   dropped.
#ifndef UZRAM_BASE_LOG_H_
#define UZRAM_BASE_LOG_H_

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/mutex.h"

namespace uzram::base {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

// Lines below `level` are dropped; info at first.
void set_log_level(LogLevel level) noexcept;
void log(LogLevel level, std::string_view line) noexcept;

// Lets a few lines through in each second. What it held back is counted and told with the first
// line of a later second.
class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogLimiter(unsigned lines_per_second) : lines_per_second_(lines_per_second) {}

  // False when the line was held back. `now` is a parameter for tests alone.
  bool log(LogLevel level, std::string_view line, Clock::time_point now = Clock::now()) noexcept;

 private:
  const unsigned lines_per_second_;
  Mutex mutex_;
  Clock::time_point second_start_ UZRAM_GUARDED_BY(mutex_){};
  unsigned lines_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::uint64_t held_back_ UZRAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace uzram::base

#endif  // UZRAM_BASE_LOG_H_
