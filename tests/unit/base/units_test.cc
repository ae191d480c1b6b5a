#include "base/units.h"

#include <gtest/gtest.h>

namespace uzram::base {
namespace {

constexpr std::uint64_t kMax = (std::uint64_t{1} << 63) - 1;

TEST(ParseSize, TakesDigitsAndOneSuffix) {
  EXPECT_EQ(parse_size("0", kMax).value(), 0U);
  EXPECT_EQ(parse_size("4096", kMax).value(), 4096U);
  EXPECT_EQ(parse_size("1K", kMax).value(), 1024U);
  EXPECT_EQ(parse_size("512m", kMax).value(), 512U << 20);
  EXPECT_EQ(parse_size("16T", kMax).value(), std::uint64_t{16} << 40);
  EXPECT_EQ(parse_size("9223372036854775807", kMax).value(), kMax);
  EXPECT_EQ(parse_size("8388607T", kMax).value(), std::uint64_t{8388607} << 40);
}

TEST(ParseSize, RefusesEverythingElseByName) {
  for (const char* text :
       {"", "-1", "+1", "1e3", "4 KiB", "4KiB", "16E", "0x", "0x10", " 1", "1 ", "K", "1.5G", "1KK",
        "9223372036854775808", "8388608T", "18446744073709551616", "99999999999999999999999999T"}) {
    const auto result = parse_size(text, kMax);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().status, Status::invalid_argument);
    EXPECT_NE(result.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(ParseCount, HasNoSuffix) {
  EXPECT_EQ(parse_count("12", 12).value(), 12U);
  EXPECT_FALSE(parse_count("13", 12).has_value());
  EXPECT_FALSE(parse_count("1K", kMax).has_value());
  EXPECT_FALSE(parse_count("", kMax).has_value());
}

TEST(FormatSize, IsShort) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1023), "1023");
  EXPECT_EQ(format_size(4096), "4.0K");
  EXPECT_EQ(format_size(kMax), "8.0E");
}

}  // namespace
}  // namespace uzram::base
