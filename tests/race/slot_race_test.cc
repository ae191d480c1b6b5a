#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/slot.h"

namespace uzram::device {
namespace {

// The lock's holder is often preempted here, so that waiters sleep and are handed on; a lost
// wake-up hangs.
TEST(SlotRace, ManyThreadsCountUnderOneBit) {
  Slot slot{};
  constexpr std::uint64_t kThreads = 12, kRounds = 100000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        const SlotWord word = slot.lock();
        if (i % 1024 == 0) std::this_thread::yield();
        slot.unlock(SlotWord(Kind::fill, word.payload() + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(slot.peek().payload(), kThreads * kRounds);
  EXPECT_FALSE(slot.locked());
}

// Writers replace while others lock: every value that was published is handed to exactly one who
// retires it.
TEST(SlotRace, WhatIsReplacedIsHandedOutOnce) {
  Slot slot{};
  constexpr std::uint64_t kThreads = 6, kRounds = 100000;
  std::vector<std::vector<std::uint64_t>> got(kThreads);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        const SlotWord next(Kind::fill, 1 + t * kRounds + i);
        if (i % 3 == 0) {
          const SlotWord old = slot.lock();
          if (i % 999 == 0) std::this_thread::yield();
          slot.unlock(next);
          got[t].push_back(old.payload());
        } else {
          got[t].push_back(slot.replace(next).payload());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> seen(kThreads * kRounds + 1, 0);
  for (const auto& values : got) {
    for (const std::uint64_t value : values) ++seen[value];
  }
  ++seen[slot.peek().payload()];
  for (std::size_t value = 0; value < seen.size(); ++value) ASSERT_EQ(seen[value], 1) << value;
}

}  // namespace
}  // namespace uzram::device
