// Requests that wait for the backing store keep no session thread, and no other request, waiting.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "attach/loop/change_order.h"
#include "exec/slow_lane.h"
#include "tests/unit/attach/loop_fixture.h"

namespace uzram::attach {
namespace {

constexpr std::size_t kMiB = 1U << 20;
constexpr unsigned kLaneThreads = exec::LaneLimits{}.threads_max;

class LoopLaneTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    if (IsSkipped()) return;
    LoopOptions with = options();
    with.file_only = true;
    attachment_ = start(device_, with);
  }
  void TearDown() override {
    device_.unblock();
    attachment_.reset();
    LoopTest::TearDown();
  }

  base::Fd open_disk() const {
    return base::Fd(::open(attachment_->where().c_str(), O_RDWR | O_CLOEXEC));
  }
  ssize_t read(std::uint64_t offset, std::size_t length) const {
    std::vector<std::byte> buffer(length);
    return ::pread(open_disk().get(), buffer.data(), length, static_cast<off_t>(offset));
  }
  ssize_t write(std::uint64_t offset, std::size_t length, char letter) const {
    const std::vector<char> buffer(length, letter);
    return ::pwrite(open_disk().get(), buffer.data(), length, static_cast<off_t>(offset));
  }
  char byte_at(std::uint64_t offset) {
    char byte = 0;
    EXPECT_EQ(device_.read(offset, std::as_writable_bytes(std::span(&byte, 1))), Status::ok);
    return byte;
  }
  static long threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  }

  test::FakeDevice device_{4 * kMiB};
  std::unique_ptr<Attachment> attachment_;
};

// More of them than session threads and lane threads together.
TEST_F(LoopLaneTest, BlockedReadsHoldUpNoOther) {
  constexpr unsigned kReads = ChangeOrder::kThreadsMax + kLaneThreads + 4;
  device_.block(0, 4096);
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < kReads; ++i) {
    const std::size_t length = i % 2 == 0 ? 512 : 8192;  // served alone, and not
    readers.emplace_back(
        [this, length] { EXPECT_EQ(read(0, length), static_cast<ssize_t>(length)); });
  }
  device_.wait_until_refused(kReads);
  EXPECT_LE(device_.waiting(), kLaneThreads);
  EXPECT_EQ(read(8192, 4096), 4096);
  EXPECT_EQ(write(kMiB, 100, 'x'), 100);
  EXPECT_EQ(byte_at(kMiB + 99), 'x');
  device_.unblock();
  for (std::thread& reader : readers) reader.join();
}

TEST_F(LoopLaneTest, ReadsWhatIsThere) {
  ASSERT_EQ(write(100, 200, 'r'), 200);
  device_.block(0, 4096);
  std::array<char, 200> got{};
  std::thread reader([&] {
    EXPECT_EQ(::pread(open_disk().get(), got.data(), got.size(), 100),
              static_cast<ssize_t>(got.size()));
  });
  device_.wait_until_waiting(1);
  device_.unblock();
  reader.join();
  EXPECT_EQ(std::count(got.begin(), got.end(), 'r'), 200);
}

TEST_F(LoopLaneTest, ALaterOverlappingChangeComesAfterABlockedOne) {
  device_.block(0, 512);
  std::vector<std::thread> writers;
  writers.emplace_back([this] { EXPECT_EQ(write(0, 512, 'a'), 512); });
  device_.wait_until_waiting(1);
  // Of the same page, though not of what blocks: only the order keeps them.
  writers.emplace_back([this] { EXPECT_EQ(write(500, 100, 'b'), 100); });
  for (std::uint64_t i = 0; i < 2 * ChangeOrder::kThreadsMax; ++i) {
    writers.emplace_back([this, i] { EXPECT_EQ(write(1000 + i * 10, 10, 'c'), 10); });
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(write(8192 + i * 4096, 4096, 'd'), 4096);
    EXPECT_EQ(read(8192, 4096), 4096);
  }
  EXPECT_EQ(byte_at(600), 0);
  EXPECT_EQ(byte_at(1000), 0);
  device_.unblock();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(byte_at(499), 'a');
  EXPECT_EQ(byte_at(500), 'b');
  EXPECT_EQ(byte_at(599), 'b');
  EXPECT_EQ(byte_at(1000), 'c');
}

TEST_F(LoopLaneTest, AllKindsOfChangesAndTheirErrors) {
  ASSERT_EQ(write(0, 4096, 'x'), 4096);
  const base::Fd disk = open_disk();
  for (const int mode : {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE}) {
    device_.block(0, 4096);
    const off_t at = mode == FALLOC_FL_ZERO_RANGE ? 1000 : 0;
    std::thread change([&] { EXPECT_EQ(::fallocate(disk.get(), mode, at, 100), 0); });
    device_.wait_until_waiting(1);
    device_.unblock();
    change.join();
    EXPECT_EQ(byte_at(static_cast<std::uint64_t>(at)), 0);
    EXPECT_EQ(byte_at(static_cast<std::uint64_t>(at) + 100), 'x');
  }
  device_.block(0, 4096);
  std::thread failing([this] {
    EXPECT_EQ(write(0, 10, 'y'), -1);
    EXPECT_EQ(errno, EIO);
  });
  device_.wait_until_waiting(1);
  device_.fail_next(Op::write, Status::io_error);
  device_.unblock();
  failing.join();
  EXPECT_EQ(write(0, 10, 'z'), 10);  // the place in the order was given up
}

// Then the session's threads wait themselves, but none of them while it keeps the others from
// receiving.
TEST_F(LoopLaneTest, FullLane) {
  constexpr unsigned kFilling = exec::LaneLimits{}.buffer_bytes_max / kMiB;
  device_.block(0, kMiB);
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < kFilling; ++i) {
    readers.emplace_back([this] {
      std::unique_ptr<std::byte, decltype(&std::free)> buffer(
          static_cast<std::byte*>(std::aligned_alloc(4096, kMiB)), &std::free);
      EXPECT_EQ(::pread(open_disk().get(), buffer.get(), kMiB, 0), static_cast<ssize_t>(kMiB));
    });
  }
  device_.wait_until_refused(kFilling);
  device_.wait_until_waiting(kLaneThreads);
  readers.emplace_back([this] { EXPECT_EQ(read(0, 512), 512); });
  device_.wait_until_waiting(kLaneThreads + 1);
  EXPECT_EQ(read(2 * kMiB, 512), 512);
  device_.unblock();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(read(0, 512), 512);
}

TEST_F(LoopLaneTest, StopWaitsForWhatIsUnderWay) {
  device_.block(0, 4096);
  std::vector<std::thread> clients;
  for (unsigned i = 0; i < kLaneThreads; ++i) {
    clients.emplace_back([this] { EXPECT_EQ(read(0, 512), 512); });
  }
  clients.emplace_back([this] { EXPECT_EQ(write(0, 512, 'w'), 512); });
  device_.wait_until_refused(kLaneThreads + 1);
  device_.wait_until_waiting(kLaneThreads);
  const long before = threads();
  std::thread stop([this] { (void)attachment_->stop(true); });
  // All but the thread that stops, the clients' and the lane's own end.
  wait_until([before] { return threads() < before + 1; });
  device_.unblock();
  stop.join();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(byte_at(511), 'w');
}

}  // namespace
}  // namespace uzram::attach
