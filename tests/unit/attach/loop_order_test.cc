// Overlapping changes that are under way together take effect in the order of their arrival.
#include <fcntl.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "attach/loop/change_order.h"
#include "base/mutex.h"
#include "tests/unit/attach/loop_fixture.h"

namespace uzram::attach {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

TEST(ChangeOrder, OnlyOverlapsWaitAndOnlyForEarlierOnes) {
  ChangeOrder order;
  EXPECT_EQ(order.enter(100, 100), ChangeOrder::kNone);
  EXPECT_FALSE(order.must_wait(ChangeOrder::kNone));
  const unsigned first = order.enter(0, 4096);
  const unsigned apart = order.enter(4096, 8192);
  const unsigned same_page = order.enter(4095, 4096);
  const unsigned over_both = order.enter(4000, 4097);
  EXPECT_FALSE(order.must_wait(first));
  EXPECT_FALSE(order.must_wait(apart));
  EXPECT_TRUE(order.must_wait(same_page));
  EXPECT_TRUE(order.must_wait(over_both));
  order.leave(first);
  EXPECT_FALSE(order.must_wait(same_page));
  EXPECT_TRUE(order.must_wait(over_both));
  order.leave(apart);
  EXPECT_TRUE(order.must_wait(over_both));
  order.leave(same_page);
  EXPECT_FALSE(order.must_wait(over_both));
  order.wait(over_both);
  const unsigned last_bytes = order.enter((std::uint64_t{1} << 63) - 10, (std::uint64_t{1} << 63));
  EXPECT_FALSE(order.must_wait(last_bytes));
  order.leave(over_both);
  order.leave(last_bytes);
}

TEST(ChangeOrder, WhatWaitsForTheStoreIsNotWaitedFor) {
  ChangeOrder order;
  EXPECT_TRUE(order.wait_for_fast(ChangeOrder::kNone));
  const unsigned slow = order.enter(0, 100);
  const unsigned apart = order.enter(4096, 8192);
  const unsigned behind = order.enter(200, 300);
  const unsigned behind_both = order.enter(300, 5000);
  order.mark_slow(slow);
  EXPECT_TRUE(order.wait_for_fast(slow));
  EXPECT_TRUE(order.wait_for_fast(apart));
  EXPECT_FALSE(order.wait_for_fast(behind));
  order.mark_slow(behind);
  EXPECT_FALSE(order.wait_for_fast(behind_both));
  EXPECT_FALSE(order.leave(apart));  // nobody in the lane is behind it
  order.mark_slow(behind_both);
  EXPECT_TRUE(order.must_wait(behind_both));
  EXPECT_TRUE(order.leave(slow));
  EXPECT_FALSE(order.must_wait(behind));
  EXPECT_TRUE(order.leave(behind));
  EXPECT_FALSE(order.must_wait(behind_both));
  EXPECT_FALSE(order.leave(behind_both));
}

TEST(ChangeOrder, OneThatTurnsSlowWakesWhoWaitsForIt) {
  ChangeOrder order;
  const unsigned first = order.enter(0, 1);
  const unsigned second = order.enter(0, 1);
  std::thread waiter([&] { EXPECT_FALSE(order.wait_for_fast(second)); });
  order.mark_slow(first);
  waiter.join();
  order.leave(first);
  order.leave(second);
}

TEST(ChangeOrder, AsManyAsCanBeUnderWayFindRoomAgainAndAgain) {
  ChangeOrder order;
  for (int round = 0; round < 3; ++round) {
    std::vector<unsigned> tickets;
    for (unsigned i = 0; i < ChangeOrder::kChangesMax; ++i) tickets.push_back(order.enter(0, 1));
    for (unsigned i = 0; i < tickets.size(); ++i) {
      EXPECT_EQ(order.must_wait(tickets[i]), i > 0);
    }
    for (const unsigned ticket : tickets) {
      order.wait(ticket);
      order.leave(ticket);
    }
  }
}

// Holds its first write until another one of its page comes in beside it, or none does for a while.
class SlowFirstWrite final : public Device {
 public:
  explicit SlowFirstWrite(std::uint64_t size_bytes) : inner_(size_bytes) {}

  void submit(std::span<Request> batch) noexcept override {
    if (batch.front().op == Op::write) {
      const base::MutexLock lock(mutex_);
      const unsigned number = ++writes_;
      changed_.notify_all();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
      while (number == 1 && writes_ == 1) {
        if (!changed_.wait_until(mutex_, deadline)) break;
      }
    }
    inner_.submit(batch);
  }
  void wait_for_write() {
    const base::MutexLock lock(mutex_);
    while (writes_ == 0) changed_.wait(mutex_);
  }

  std::size_t extents(std::uint64_t offset, std::uint64_t length,
                      std::span<Extent> out) const noexcept override {
    return inner_.extents(offset, length, out);
  }
  void reset() noexcept override { inner_.reset(); }
  Stats stats() const noexcept override { return inner_.stats(); }
  void set_mem_limit(std::uint64_t) noexcept override {}
  void reset_mem_used_max() noexcept override {}
  void compact() noexcept override {}
  const DeviceOptions& options() const noexcept override { return inner_.options(); }

 private:
  test::FakeDevice inner_;
  base::Mutex mutex_;
  base::CondVar changed_;
  unsigned writes_ UZRAM_GUARDED_BY(mutex_) = 0;
};

TEST_F(LoopTest, TheLaterOfTwoWritesUnderWayWins) {
  SlowFirstWrite device(kMiB);
  LoopOptions with = options();
  with.file_only = true;
  const auto attachment = start(device, with);
  const std::string path = attachment->where();
  const auto write_all = [&path](int letter) {
    alignas(4096)
        std::byte pages[8192];  // more than a page, so that another thread goes on receiving
    std::memset(pages, letter, sizeof pages);
    const base::Fd file(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    EXPECT_EQ(::pwrite(file.get(), pages, sizeof pages, 8192), 8192);
  };
  std::thread earlier(write_all, 'a');
  device.wait_for_write();
  std::thread later(write_all, 'b');
  earlier.join();
  later.join();
  std::byte byte{};
  ASSERT_EQ(device.read(8192 + 7, {&byte, 1}), Status::ok);
  EXPECT_EQ(byte, std::byte{'b'});
  EXPECT_TRUE(attachment->stop(false));
}

}  // namespace
}  // namespace uzram::attach
