#include "exec/slow_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/fake_device.h"

namespace uzram::exec {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// Counts jobs that ended and remembers their order.
struct Log {
  base::Mutex mutex;
  base::CondVar changed;
  std::vector<std::pair<int, Status>> ended UZRAM_GUARDED_BY(mutex);

  void add(int name, Status status) {
    const base::MutexLock lock(mutex);
    ended.emplace_back(name, status);
    changed.notify_all();
  }
  void wait_for(std::size_t count) {
    const base::MutexLock lock(mutex);
    while (ended.size() < count) changed.wait(mutex);
  }
  std::vector<std::pair<int, Status>> all() {
    const base::MutexLock lock(mutex);
    return ended;
  }
};

class LoggedJob final : public Job {
 public:
  LoggedJob(Log& log, int name, const Request& asked, std::function<bool()> may_start = {})
      : Job(asked), log_(log), name_(name), may_start_(std::move(may_start)) {}

  bool may_start() const noexcept override { return !may_start_ || may_start_(); }
  void ended(std::unique_ptr<Job> self) noexcept override {
    Log& log = log_;
    const auto entry = std::pair(name_, request.status);
    self.reset();
    log.add(entry.first, entry.second);
  }

 private:
  Log& log_;
  const int name_;
  const std::function<bool()> may_start_;
};

Request read_of(std::uint64_t offset, std::span<std::byte> to) {
  return {Op::read, kNoWait, Status::would_block, offset, to.size(), to.data()};
}

class SlowLaneTest : public testing::Test {
 protected:
  bool take(SlowLane& lane, int name, std::function<bool()> may_start = {}) {
    std::unique_ptr<Job> job =
        std::make_unique<LoggedJob>(log_, name, read_of(0, byte_), std::move(may_start));
    const bool taken = job->own_data() && lane.take(job);
    EXPECT_EQ(taken, job == nullptr);
    return taken;
  }

  test::FakeDevice device_{kMiB};
  std::array<std::byte, 1> byte_{};
  Log log_;
};

TEST_F(SlowLaneTest, SubmitsAgainWithoutTheFlag) {
  device_.block(0, 4096);
  std::array<std::byte, 4> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  Request request{Op::write, kNoWait, Status::ok, 4094, bytes.size(), bytes.data()};
  device_.submit({&request, 1});
  ASSERT_EQ(request.status, Status::would_block);
  {
    SlowLane lane(device_);
    std::unique_ptr<Job> job = std::make_unique<LoggedJob>(log_, 1, request);
    ASSERT_TRUE(job->own_data());
    bytes.fill(std::byte{9});  // the job has its own by now
    ASSERT_TRUE(lane.take(job));
    device_.wait_until_waiting(1);
    EXPECT_TRUE(log_.all().empty());
    device_.unblock();
    log_.wait_for(1);
  }
  std::array<std::byte, 4> out{};
  ASSERT_EQ(device_.read(4094, out), Status::ok);
  EXPECT_EQ(out[0], std::byte{1});
  EXPECT_EQ(out[3], std::byte{4});
  EXPECT_EQ(log_.all().front().second, Status::ok);
}

TEST_F(SlowLaneTest, OneThatWaitsHoldsUpNoOther) {
  SlowLane lane(device_, {.threads_max = 2});
  device_.block(0, 1);
  ASSERT_TRUE(take(lane, 1));
  device_.wait_until_waiting(1);
  std::byte other{};
  std::unique_ptr<Job> job = std::make_unique<LoggedJob>(log_, 2, read_of(8192, {&other, 1}));
  ASSERT_TRUE(lane.take(job));
  log_.wait_for(1);
  EXPECT_EQ(log_.all().front().first, 2);
  device_.unblock();
}

TEST_F(SlowLaneTest, NoMoreThreadsThanAllowed) {
  SlowLane lane(device_, {.threads_max = 3});
  device_.block(0, 1);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(take(lane, i));
  device_.wait_until_waiting(3);
  std::this_thread::yield();
  EXPECT_EQ(device_.waiting(), 3U);
  device_.unblock();
  log_.wait_for(10);
}

TEST_F(SlowLaneTest, RefusesBeyondItsBoundsAndTheCallerRuns) {
  SlowLane lane(device_, {.threads_max = 1, .jobs_max = 3, .buffer_bytes_max = 3});
  device_.block(0, 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(take(lane, i));
  EXPECT_FALSE(take(lane, 3));
  std::byte other{};
  lane.run(std::make_unique<LoggedJob>(log_, 4, read_of(8192, {&other, 1})));
  EXPECT_EQ(log_.all(), (std::vector<std::pair<int, Status>>{{4, Status::ok}}));
  device_.unblock();
  log_.wait_for(4);
  // `ended` comes before the job is counted out.
  while (!take(lane, 5)) std::this_thread::yield();
  std::array<std::byte, 4> four{};
  std::unique_ptr<Job> large = std::make_unique<LoggedJob>(log_, 6, read_of(0, four));
  ASSERT_TRUE(large->own_data());
  EXPECT_FALSE(lane.take(large));
  EXPECT_NE(large, nullptr);
}

TEST_F(SlowLaneTest, OneThatMayNotStartTakesNoThread) {
  std::atomic<bool> may{false};
  SlowLane lane(device_, {.threads_max = 1});
  ASSERT_TRUE(take(lane, 1, [&may] { return may.load(); }));
  ASSERT_TRUE(take(lane, 2));
  log_.wait_for(1);
  EXPECT_EQ(log_.all().front().first, 2);
  may = true;
  lane.look_again();
  log_.wait_for(2);
}

// The end of one job lets others start: each thread wakes the next.
TEST_F(SlowLaneTest, AJobsEndLetsOthersStart) {
  std::atomic<bool> first_over{false};
  class First final : public Job {
   public:
    First(std::atomic<bool>& over, const Request& asked) : Job(asked), over_(over) {}
    void ended(std::unique_ptr<Job>) noexcept override { over_ = true; }

   private:
    std::atomic<bool>& over_;
  };
  SlowLane lane(device_, {.threads_max = 4});
  device_.block(8192, 8193);
  std::byte other{};
  std::unique_ptr<Job> first = std::make_unique<First>(first_over, read_of(8192, {&other, 1}));
  ASSERT_TRUE(lane.take(first));
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(take(lane, i, [&first_over] { return first_over.load(); }));
  device_.wait_until_waiting(1);
  EXPECT_TRUE(log_.all().empty());
  device_.unblock();
  log_.wait_for(5);
}

TEST_F(SlowLaneTest, ItsEndWaitsForEveryJob) {
  device_.block(0, 1);
  auto lane = std::make_unique<SlowLane>(device_, LaneLimits{.threads_max = 2});
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(take(*lane, i));
  ASSERT_TRUE(take(*lane, 6, [this] { return log_.all().size() == 6; }));
  std::thread end([&lane] { lane.reset(); });
  device_.wait_until_waiting(2);
  device_.unblock();
  end.join();
  EXPECT_EQ(log_.all().size(), 7U);
  for (const auto& [name, status] : log_.all()) EXPECT_EQ(status, Status::ok) << name;
}

TEST_F(SlowLaneTest, TellsErrors) {
  SlowLane lane(device_);
  device_.fail_next(Op::read, Status::io_error);
  ASSERT_TRUE(take(lane, 1));
  log_.wait_for(1);
  EXPECT_EQ(log_.all().front().second, Status::io_error);
}

}  // namespace
}  // namespace uzram::exec
