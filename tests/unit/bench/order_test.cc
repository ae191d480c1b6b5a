#include "bench/order.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace uzram::bench {
namespace {

TEST(Permutation, VisitsEachOnce) {
  for (const std::uint64_t n : {1U, 2U, 3U, 7U, 8U, 100U, 1023U, 1024U, 1025U, 65537U}) {
    for (const std::uint64_t seed : {0U, 1U, 77U}) {
      const Permutation permutation(n, seed);
      std::vector<bool> seen(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t at = permutation(i);
        ASSERT_LT(at, n);
        ASSERT_FALSE(seen[at]) << at << " twice, n " << n << " seed " << seed;
        seen[at] = true;
      }
    }
  }
}

TEST(Permutation, HoldsForTheLargestSizes) {
  const Permutation permutation(~std::uint64_t{0}, 3);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10'000; ++i) seen.insert(permutation(i));
  EXPECT_EQ(seen.size(), 10'000U);
}

TEST(Permutation, LooksRandom) {
  constexpr std::uint64_t kRecords = 1 << 16;
  const Permutation one(kRecords, 1);
  const Permutation two(kRecords, 2);
  unsigned near = 0;
  unsigned same = 0;
  unsigned odd_after_even = 0;
  for (std::uint64_t i = 0; i + 1 < kRecords; ++i) {
    const std::uint64_t step = one(i + 1) - one(i);
    if (step + 64 < 128) ++near;
    if (one(i) == two(i)) ++same;
    if (one(i) % 2 == 0 && one(i + 1) % 2 == 1) ++odd_after_even;
  }
  // By chance: 128 near of 65536, 1 same, a quarter odd after even.
  EXPECT_LT(near, 256U);
  EXPECT_LT(same, 16U);
  EXPECT_GT(odd_after_even, kRecords / 5);
  EXPECT_LT(odd_after_even, kRecords / 3);
}

TEST(Order, ThreadsShareAllRecordsAndOverlapNowhere) {
  for (const std::uint64_t records : {1U, 5U, 64U, 1000U}) {
    for (unsigned threads = 1; threads <= 7 && threads <= records; ++threads) {
      for (const bool random : {false, true}) {
        std::vector<unsigned> seen(records);
        for (unsigned thread = 0; thread < threads; ++thread) {
          const Order order(records, thread, threads, random, 9 + thread);
          ASSERT_GT(order.count(), 0U);
          for (std::uint64_t i = 0; i < order.count(); ++i) ++seen.at(order(i));
        }
        for (const unsigned times : seen) ASSERT_EQ(times, 1U);
      }
    }
  }
}

TEST(Order, SequentialIsSequentialToTheLargestSizes) {
  const std::uint64_t records = std::uint64_t{1} << 40;
  const Order order(records, 3, 4, false, 1);
  EXPECT_EQ(order(0), records / 4 * 3);
  EXPECT_EQ(order(order.count() - 1), records - 1);
}

}  // namespace
}  // namespace uzram::bench
