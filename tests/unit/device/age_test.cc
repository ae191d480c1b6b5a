// Stamps tell ages over weeks, as long as they are swept in time.
#include "device/age.h"

#include <gtest/gtest.h>

namespace uzram::device {
namespace {

constexpr std::uint64_t kHour = 3600, kDay = 24 * kHour;

TEST(Age, ExactWhileFine) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{65535}, 1000 * kDay}) {
    for (const std::uint64_t age : {std::uint64_t{0}, std::uint64_t{1}, 9 * kHour, 18 * kHour}) {
      EXPECT_EQ(Age::of(Age::stamp(start), start + age), age);
    }
  }
}

TEST(Age, SweptInTimeItStaysTrue) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{65000}, 1000 * kDay + 77}) {
    Stamp stamp = Age::stamp(start);
    std::uint64_t now = start;
    while (now < start + 44 * kDay) {
      now += Age::kSweepSeconds;
      stamp = Age::swept(stamp, now);
      const std::uint64_t age = Age::of(stamp, now);
      EXPECT_LE(age, now - start + 128);
      EXPECT_GE(age + 2 * 128, now - start);
    }
  }
}

TEST(Age, EndsAtTheLargestAndNeverComesRound) {
  Stamp stamp = Age::stamp(5);
  std::uint64_t last = 0;
  for (std::uint64_t now = 5; now < 400 * kDay; now += Age::kSweepSeconds) {
    stamp = Age::swept(stamp, now);
    const std::uint64_t age = Age::of(stamp, now);
    EXPECT_GE(age + 256, last);
    EXPECT_LE(age, Age::kAgeMax);
    last = age;
  }
  EXPECT_GE(last + 256, Age::kAgeMax);
}

}  // namespace
}  // namespace uzram::device
