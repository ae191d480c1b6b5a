// Start, stop and clients of the loop attachment, and what is left of it.
#include "attach/loop/loop.h"

#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <set>

#include "tests/unit/attach/loop_fixture.h"

namespace uzram::attach {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

// Of any size, and empty.
class EmptyDevice final : public Device {
 public:
  explicit EmptyDevice(std::uint64_t size_bytes) { options_.size_bytes = size_bytes; }
  void submit(std::span<Request> batch) noexcept override {
    for (Request& request : batch) {
      if (request.op == Op::read) std::fill_n(request.data, request.length, std::byte{});
      request.status = Status::ok;
    }
  }
  std::size_t extents(std::uint64_t, std::uint64_t length,
                      std::span<Extent> out) const noexcept override {
    out[0] = {length, true, true};
    return 1;
  }
  void reset() noexcept override {}
  Stats stats() const noexcept override { return {}; }
  void set_mem_limit(std::uint64_t) noexcept override {}
  void reset_mem_used_max() noexcept override {}
  void compact() noexcept override {}
  const DeviceOptions& options() const noexcept override { return options_; }

 private:
  DeviceOptions options_;
};

bool reads(const std::string& device) {
  return run("dd if=" + device + " of=/dev/null bs=4k count=1 iflag=direct") == 0;
}

TEST_F(LoopTest, HeldItIsNobodyElses) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  {
    const base::Fd user(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(user);
    const auto held = attachment->hold();
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().status, Status::busy);
  }
  ASSERT_TRUE(attachment->hold());
  EXPECT_LT(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC), 0);
  EXPECT_EQ(errno, EBUSY);
  attachment->release();
  EXPECT_TRUE(base::Fd(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC)));
  EXPECT_TRUE(attachment->stop(false));
}

TEST_F(LoopTest, HeldNobodyOpensItsFile) {
  test::FakeDevice device(8 * kMiB);
  LoopOptions with = options();
  for (const bool file_only : {true, false}) {
    with.file_only = file_only;
    const auto attachment = start(device, with);
    const std::string path = mount_dir() + "/" + kLoopFileName;
    const auto opens = [&path] {
      return static_cast<bool>(base::Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
    };
    // A close is told to us after it has returned.
    const auto unused = [&attachment] { return attachment->clients() == 0; };
    {
      const base::Fd user(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      ASSERT_TRUE(user);
      ASSERT_FALSE(attachment->hold());
      EXPECT_TRUE(opens()) << "kept out after a refusal";
    }
    wait_until(unused);
    ASSERT_TRUE(attachment->hold());
    EXPECT_FALSE(opens());
    EXPECT_EQ(errno, EBUSY);
    attachment->release();
    EXPECT_TRUE(opens());
    wait_until(unused);
    EXPECT_TRUE(attachment->stop(false));
  }
}

// As after an administrator's losetup --detach, when others have taken the number.
TEST_F(LoopTest, AnotherOnesDeviceOfItsNumberIsNeitherClaimedNorInTheWay) {
  test::FakeDevice device(kMiB);
  LoopOptions with = options();
  with.read_only = true;  // only such a one can change its file without a moment in between
  const auto attachment = start(device, with);
  const std::string where = attachment->where();
  const std::string path = dir_ + "/another";
  const base::Fd another(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(another.get(), kMiB), 0);
  const base::Fd loop(::open(where.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::ioctl(loop.get(), LOOP_CHANGE_FD, another.get()), 0);
  {
    const base::Fd user(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(user);
    const Result<void> held = attachment->hold();
    EXPECT_TRUE(held) << held.error().message;
    attachment->release();
  }
  ASSERT_TRUE(attachment->hold());
  EXPECT_TRUE(base::Fd(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC)));
  const base::Fd user(::open(where.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(user);
  const Result<void> stopped = attachment->stop(false);
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(::ioctl(loop.get(), LOOP_CLR_FD), 0);
}

// Somebody writes through the page cache while the device is held, and goes; then the process is
// killed. It would wait for ever to write that back through itself.
TEST_F(LoopTest, KilledWhileItIsHeldTheProcessGoes) {
  test::FakeDevice device(8 * kMiB);
  Child child([&] {
    Attachment* const attachment = start(device, options()).release();
    if (!attachment->hold()) ::_exit(1);
    return std::pair(attachment->where(), attachment);
  });
  {
    const base::Fd writer(::open(child.said().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(writer) << child.said();
    const std::vector<char> data(1 << 20, 'x');
    ASSERT_EQ(::write(writer.get(), data.data(), data.size()), 1 << 20);
  }
  struct stat mount;
  ASSERT_EQ(::stat(mount_dir().c_str(), &mount), 0);
  ::kill(child.pid(), SIGKILL);
  siginfo_t gone{};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (gone.si_pid == 0 && std::chrono::steady_clock::now() < deadline) {
    ::waitid(P_PID, static_cast<id_t>(child.pid()), &gone, WEXITED | WNOHANG | WNOWAIT);
    std::this_thread::yield();
  }
  EXPECT_NE(gone.si_pid, 0) << "abort FUSE connection " << minor(mount.st_dev) << " by hand";
  if (gone.si_pid != 0) child.kill();
  EXPECT_TRUE(clean_up_loop(mount_dir()));
}

TEST_F(LoopTest, StopLeavesNothing) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  EXPECT_TRUE(is_bound(where));
  EXPECT_EQ(attachment->clients(), 0U);
  struct stat seen;
  ASSERT_EQ(::stat(dir_.c_str(), &seen), 0);
  ASSERT_EQ(::stat(mount_dir().c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode, S_IFDIR | 0700U);
  const Result<void> stopped = attachment->stop(false);
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(is_bound(where));
  EXPECT_FALSE(std::filesystem::exists(mount_dir()));
  EXPECT_TRUE(attachment->stop(false));
  EXPECT_TRUE(attachment->stop(true));
}

TEST_F(LoopTest, GoesWithoutStop) {
  test::FakeDevice device(8 * kMiB);
  std::string where;
  {
    const auto attachment = start(device, options());
    where = attachment->where();
  }
  EXPECT_FALSE(is_bound(where));
}

TEST_F(LoopTest, RefusesWhatDoesNotFit) {
  test::FakeDevice odd(kMiB + 512), odder(kMiB + 1);
  LoopOptions with = options();
  with.block_size = 4096;
  Result<std::unique_ptr<Attachment>> refused = start_loop(odd, with);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::invalid_argument);
  EXPECT_NE(refused.error().message.find("1049088"), std::string::npos) << refused.error().message;
  with.block_size = 512;
  EXPECT_TRUE(start_loop(odd, with));
  refused = start_loop(odder, with);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::invalid_argument);
  for (const unsigned block : {0U, 1U, 1024U, 8192U}) {
    with.block_size = block;
    EXPECT_EQ(start_loop(odd, with).error().status, Status::invalid_argument) << block;
  }
}

TEST_F(LoopTest, RefusesAMountDirectoryThatIsThereOrCantBe) {
  test::FakeDevice device(kMiB);
  ASSERT_EQ(::mkdir(mount_dir().c_str(), 0755), 0);
  Result<std::unique_ptr<Attachment>> refused = start_loop(device, options());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::exists);
  EXPECT_TRUE(std::filesystem::exists(mount_dir())) << "took what is not its own";
  ASSERT_EQ(::rmdir(mount_dir().c_str()), 0);
  LoopOptions with = options();
  with.mount_dir = dir_ + "/missing/a.fuse";
  EXPECT_EQ(start_loop(device, with).error().status, Status::not_found);
  for (const std::string name : {"", "/", ".", "a/.."}) {
    with.mount_dir = name;
    EXPECT_EQ(start_loop(device, with).error().status, Status::invalid_argument) << name;
  }
}

// Start needs descriptors at many places; whichever it can't have, it fails and leaves nothing.
TEST_F(LoopTest, FailsCleanlyWithoutDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  test::FakeDevice device(kMiB);
  bool started = false;
  unsigned refusals = 0;
  for (rlim_t limit = 3; !started; ++limit) {
    const rlimit low{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    started = start_loop(device, options()).has_value();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    refusals += started ? 0 : 1;
    ASSERT_FALSE(std::filesystem::exists(mount_dir())) << "with a limit of " << limit;
  }
  EXPECT_GT(refusals, 3U);
}

TEST_F(LoopTest, HugeDevicesKeepTheirSize) {
  for (const std::uint64_t size : {std::uint64_t{16} << 40, kDeviceBytesMax / 4096 * 4096}) {
    EmptyDevice device(size);
    LoopOptions with = options();
    with.block_size = 4096;
    const auto attachment = start(device, with);
    const base::Fd fd(::open(attachment->where().c_str(), O_RDWR | O_CLOEXEC));
    std::uint64_t seen = 0;
    ASSERT_EQ(::ioctl(fd.get(), BLKGETSIZE64, &seen), 0);
    EXPECT_EQ(seen, size);
    char byte = 1;
    EXPECT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(size - 1)), 1);
    EXPECT_EQ(byte, 0);
  }
}

TEST_F(LoopTest, StopOfAnOpenDeviceIsBusyAndServesOn) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  {
    const Child holder(opener(where));
    EXPECT_EQ(attachment->clients(), 1U);
    const Result<void> stopped = attachment->stop(false);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().status, Status::busy);
    EXPECT_NE(stopped.error().message.find(std::to_string(holder.pid())), std::string::npos)
        << stopped.error().message;
    EXPECT_TRUE(reads(where));
    EXPECT_FALSE(has_flag(where, LO_FLAGS_AUTOCLEAR));
  }
  EXPECT_TRUE(is_bound(where)) << "the refused stop took effect later";
  EXPECT_TRUE(reads(where));
  EXPECT_EQ(attachment->clients(), 0U);
  const Result<void> stopped = attachment->stop(false);
  EXPECT_TRUE(stopped) << stopped.error().message;
}

TEST_F(LoopTest, StopWaitsForAProberToClose) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  Child prober(opener(where));
  std::thread closer([&] {
    wait_until([&] { return !is_bound(where) || has_flag(where, LO_FLAGS_AUTOCLEAR); });
    prober.kill();
  });
  const Result<void> stopped = attachment->stop(false);
  closer.join();
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(is_bound(where));
}

TEST_F(LoopTest, StopOfAnOpenFileIsBusyUnlessForced) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  base::Fd file(::open((mount_dir() + "/disk").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file);
  EXPECT_EQ(attachment->clients(), 1U);
  EXPECT_EQ(attachment->stop(false).error().status, Status::busy);
  EXPECT_TRUE(reads(attachment->where()));
  EXPECT_EQ(attachment->stop(true).error().status, Status::busy);
  char byte = 0;
  EXPECT_EQ(::pread(file.get(), &byte, 1, 0), -1);
  wait_until([&] { return !is_bound(attachment->where()); });
}

TEST_F(LoopTest, ForcedStopGivesHoldersErrorsAndGoesWithThem) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  {
    const Child holder(opener(where));
    const Result<void> stopped = attachment->stop(true);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().status, Status::busy);
    EXPECT_FALSE(std::filesystem::exists(mount_dir()));
    EXPECT_FALSE(reads(where));
    EXPECT_TRUE(attachment->stop(true));
  }
  wait_until([&] { return !is_bound(where); });
}

TEST_F(LoopTest, MountedIsBusyAndForcedStopLetsUnmount) {
  if (!has_program("mkfs.ext4")) GTEST_SKIP() << "needs mkfs.ext4";
  test::FakeDevice device(64 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where(), point = dir_ + "/mnt";
  ASSERT_EQ(run("mkfs.ext4 -q " + where), 0);
  ASSERT_EQ(::mkdir(point.c_str(), 0700), 0);
  ASSERT_EQ(::mount(where.c_str(), point.c_str(), "ext4", 0, nullptr), 0);
  EXPECT_EQ(attachment->clients(), 1U);
  const Result<void> stopped = attachment->stop(false);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, where + ": mounted on " + point);
  EXPECT_EQ(run("cp /bin/sh " + point + " && sync -f " + point), 0);
  EXPECT_EQ(attachment->stop(true).error().status, Status::busy);
  EXPECT_NE(run("cp /bin/sh " + point + "/b && sync -f " + point), 0);
  EXPECT_EQ(::umount2(point.c_str(), 0), 0);
  wait_until([&] { return !is_bound(where); });
}

// Someone else detached the device, and its number has a new owner.
TEST_F(LoopTest, NeverTouchesAnotherOwnersDevice) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const std::string where = attachment->where();
  ASSERT_EQ(run("losetup -d " + where), 0);
  wait_until([&] { return !is_bound(where); });
  const std::string image = dir_ + "/image";
  ASSERT_EQ(run("truncate -s 8M " + image), 0);
  if (run("losetup " + where + " " + image) != 0) GTEST_SKIP() << "another program was faster";
  EXPECT_TRUE(attachment->stop(true));
  EXPECT_TRUE(clean_up_loop(mount_dir()));
  EXPECT_TRUE(is_bound(where));
  EXPECT_EQ(run("losetup -d " + where), 0);
}

// The mount was taken away lazily by someone else: the file can't be found by its path any more.
TEST_F(LoopTest, StopsAfterItsMountWasDetached) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  ASSERT_EQ(::umount2(mount_dir().c_str(), MNT_DETACH), 0);
  EXPECT_TRUE(reads(attachment->where()));
  const Result<void> stopped = attachment->stop(false);
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(is_bound(attachment->where()));
}

TEST_F(LoopTest, StopsAfterItsConnectionWasAborted) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  ::umount2(mount_dir().c_str(), MNT_FORCE);  // aborts, then finds the mount busy
  EXPECT_FALSE(reads(attachment->where()));
  static_cast<void>(attachment->stop(true));
  wait_until([&] { return !is_bound(attachment->where()); });
}

TEST_F(LoopTest, ManyStartAtOnceEachWithItsOwn) {
  constexpr unsigned kCount = 6;
  std::vector<std::unique_ptr<test::FakeDevice>> devices(kCount);
  std::vector<std::unique_ptr<Attachment>> attachments(kCount);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kCount; ++i) {
    threads.emplace_back([&, i] {
      devices[i] = std::make_unique<test::FakeDevice>((i + 1) * kMiB);
      LoopOptions with = options();
      with.mount_dir += std::to_string(i);
      Result<std::unique_ptr<Attachment>> started = start_loop(*devices[i], with);
      ASSERT_TRUE(started) << started.error().message;
      attachments[i] = std::move(*started);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> paths;
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_TRUE(attachments[i]);
    const base::Fd fd(::open(attachments[i]->where().c_str(), O_RDONLY | O_CLOEXEC));
    std::uint64_t seen = 0;
    ASSERT_EQ(::ioctl(fd.get(), BLKGETSIZE64, &seen), 0);
    EXPECT_EQ(seen, (i + 1) * kMiB);
    paths.insert(attachments[i]->where());
  }
  EXPECT_EQ(paths.size(), kCount);
}

}  // namespace
}  // namespace uzram::attach
