#include "base/log.h"

#include <gtest/gtest.h>

namespace uzram::base {
namespace {

using std::chrono::milliseconds;

TEST(LogLimiter, LetsAFewLinesThroughInEachSecond) {
  LogLimiter limiter(3);
  const auto start = LogLimiter::Clock::now();
  testing::internal::CaptureStderr();
  int written = 0;
  for (int i = 0; i < 1000; ++i) {
    written += limiter.log(LogLevel::info, "first", start + milliseconds(i % 999)) ? 1 : 0;
  }
  EXPECT_EQ(written, 3);
  EXPECT_TRUE(limiter.log(LogLevel::warning, "second", start + milliseconds(1000)));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" info: first\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" warning: 997 lines like the next one were held back\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" warning: second\n"), std::string::npos) << text;
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  testing::internal::CaptureStderr();
  log(LogLevel::debug, "too much");
  set_log_level(LogLevel::debug);
  log(LogLevel::debug, "enough");
  set_log_level(LogLevel::info);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("too much"), std::string::npos) << text;
  EXPECT_NE(text.find("enough"), std::string::npos) << text;
}

}  // namespace
}  // namespace uzram::base
