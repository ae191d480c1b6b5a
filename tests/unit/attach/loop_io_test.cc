// What the kernel's requests to the file and the loop device do to the device, and their answers.
#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "tests/unit/attach/loop_fixture.h"

namespace uzram::attach {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

// Whole aligned blocks, for direct I/O.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes, unsigned seed = 0)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)),
              &std::free) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < bytes; ++i) {
      data_.get()[i] = static_cast<std::byte>(seed == 0 ? 0 : random() >> 8);
    }
  }
  std::byte* data() { return data_.get(); }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }
  bool operator==(AlignedBytes& other) { return std::ranges::equal(span(), other.span()); }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

class LoopIo : public LoopTest {
 protected:
  base::Fd open(const std::string& path, int flags) {
    base::Fd fd(::open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
    return fd;
  }
  std::vector<Extent> extents(const Device& device) {
    std::vector<Extent> out(64);
    out.resize(device.extents(0, device.size_bytes(), out));
    return out;
  }
};

class LoopIoBlocks : public LoopIo, public testing::WithParamInterface<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Blocks, LoopIoBlocks, testing::Values(512U, 4096U));

TEST_P(LoopIoBlocks, BytesGoThroughBothWays) {
  test::FakeDevice device(64 * kMiB);
  LoopOptions with = options();
  with.block_size = GetParam();
  const auto attachment = start(device, with);
  EXPECT_EQ(attachment->kind(), "loop");
  const base::Fd fd = open(attachment->where(), O_RDWR | O_DIRECT);
  std::uint64_t size = 0;
  int block = 0, read_only = 1;
  ASSERT_EQ(::ioctl(fd.get(), BLKGETSIZE64, &size), 0);
  ASSERT_EQ(::ioctl(fd.get(), BLKSSZGET, &block), 0);
  ASSERT_EQ(::ioctl(fd.get(), BLKROGET, &read_only), 0);
  EXPECT_EQ(size, device.size_bytes());
  EXPECT_EQ(static_cast<unsigned>(block), GetParam());
  EXPECT_EQ(read_only, 0);
  EXPECT_TRUE(has_flag(attachment->where(), LO_FLAGS_DIRECT_IO)) << "slower by four times";
  // From one block to more than one request of the FUSE protocol carries; the ends of the device.
  for (const std::size_t length : {std::size_t{GetParam()}, std::size_t{4096} * 3, 5 * kMiB}) {
    for (const std::uint64_t at : {std::uint64_t{0}, 7 * kMiB + GetParam(), size - length}) {
      AlignedBytes sent(length, static_cast<unsigned>(at + length)), seen(length);
      ASSERT_EQ(::pwrite(fd.get(), sent.data(), length, static_cast<off_t>(at)),
                static_cast<ssize_t>(length));
      ASSERT_EQ(device.read(at, seen.span()), Status::ok);
      EXPECT_TRUE(seen == sent) << length << " at " << at;
      AlignedBytes stored(length, static_cast<unsigned>(at + length + 1));
      ASSERT_EQ(device.write(at, stored.span()), Status::ok);
      ASSERT_EQ(::pread(fd.get(), seen.data(), length, static_cast<off_t>(at)),
                static_cast<ssize_t>(length));
      EXPECT_TRUE(seen == stored) << length << " at " << at;
    }
  }
}

TEST_P(LoopIoBlocks, DiscardAndZeroesReachTheDevice) {
  test::FakeDevice device(64 * kMiB);
  LoopOptions with = options();
  with.block_size = GetParam();
  const auto attachment = start(device, with);
  const base::Fd fd = open(attachment->where(), O_RDWR | O_DIRECT);
  AlignedBytes data(4 * kMiB, 1);
  ASSERT_EQ(::pwrite(fd.get(), data.data(), 4 * kMiB, 0), static_cast<ssize_t>(4 * kMiB));
  std::array<std::uint64_t, 2> range = {kMiB, kMiB};
  ASSERT_EQ(::ioctl(fd.get(), BLKDISCARD, range.data()), 0) << std::strerror(errno);
  range = {3 * kMiB, kMiB};
  ASSERT_EQ(::ioctl(fd.get(), BLKZEROOUT, range.data()), 0) << std::strerror(errno);
  const std::vector<Extent> seen = extents(device);
  ASSERT_GE(seen.size(), 3U);
  EXPECT_EQ(seen[0], (Extent{kMiB, false, false}));
  EXPECT_EQ(seen[1], (Extent{kMiB, true, true}));
  EXPECT_FALSE(seen[2].hole);
  AlignedBytes after(4 * kMiB);
  ASSERT_EQ(device.read(0, after.span()), Status::ok);
  std::fill_n(data.data() + kMiB, kMiB, std::byte{});
  std::fill_n(data.data() + 3 * kMiB, kMiB, std::byte{});
  EXPECT_TRUE(after == data);
  range = {0, device.size_bytes()};
  ASSERT_EQ(::ioctl(fd.get(), BLKDISCARD, range.data()), 0);
  EXPECT_EQ(extents(device), (std::vector<Extent>{{device.size_bytes(), true, true}}));
}

TEST_F(LoopIo, FsyncFlushesTheDevice) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const base::Fd fd = open(attachment->where(), O_RDWR | O_DIRECT);
  AlignedBytes data(4096, 1);
  const std::uint64_t before = device.stats().flushes;
  ASSERT_EQ(::pwrite(fd.get(), data.data(), 4096, 0), 4096);
  ASSERT_EQ(::fsync(fd.get()), 0);
  EXPECT_GT(device.stats().flushes, before);
}

TEST_F(LoopIo, DeviceErrorsReachTheirRequestAlone) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const base::Fd fd = open(attachment->where(), O_RDWR | O_DIRECT);
  AlignedBytes data(4096, 1), seen(4096);
  ASSERT_EQ(::pwrite(fd.get(), data.data(), 4096, 8192), 4096);
  const base::Fd file = open(mount_dir() + "/disk", O_RDWR);
  for (const base::Fd* way : {&fd, &file}) {
    device.fail_next(Op::write, Status::no_space);
    EXPECT_EQ(::pwrite(way->get(), data.data(), 4096, 0), -1);
    EXPECT_EQ(errno, ENOSPC);
    device.fail_next(Op::read, Status::io_error);
    EXPECT_EQ(::pread(way->get(), seen.data(), 4096, 8192), -1);
    EXPECT_EQ(errno, EIO);
    ASSERT_EQ(::pread(way->get(), seen.data(), 4096, 8192), 4096);
    EXPECT_TRUE(seen == data);
  }
  device.fail_next(Op::flush, Status::io_error);
  EXPECT_EQ(::fsync(file.get()), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(LoopIo, ReadOnlyRefusesEveryChange) {
  test::FakeDevice device(8 * kMiB);
  const std::array<std::byte, 4> mark = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ASSERT_EQ(device.write(0, mark), Status::ok);
  LoopOptions with = options();
  with.read_only = true;
  const auto attachment = start(device, with);
  const base::Fd fd = open(attachment->where(), O_RDONLY);
  int read_only = 0;
  ASSERT_EQ(::ioctl(fd.get(), BLKROGET, &read_only), 0);
  EXPECT_EQ(read_only, 1);
  EXPECT_EQ(::open((mount_dir() + "/disk").c_str(), O_RDWR), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(run("blkdiscard -f " + attachment->where()), 1);
  EXPECT_NE(run("dd if=/dev/zero of=" + attachment->where() + " bs=4k count=1 oflag=direct"), 0);
  std::array<std::byte, 4> seen{};
  ASSERT_EQ(::pread(fd.get(), seen.data(), 4, 0), 4);
  EXPECT_EQ(seen, mark);
}

TEST_F(LoopIo, ReadOnlyDeviceIsAttachedReadOnly) {
  test::FakeDevice device(8 * kMiB, true);
  const auto attachment = start(device, options());
  const base::Fd fd = open(attachment->where(), O_RDONLY);
  int read_only = 0;
  ASSERT_EQ(::ioctl(fd.get(), BLKROGET, &read_only), 0);
  EXPECT_EQ(read_only, 1);
}

// The file alone, of a size that fits no block.
class LoopFile : public LoopIo {
 protected:
  static constexpr std::uint64_t kSize = kMiB + 1003;
  void SetUp() override {
    LoopIo::SetUp();
    if (IsSkipped()) return;
    LoopOptions with = options();
    with.file_only = true;
    attachment_ = start(device_, with);
    file_ = open(attachment_->where(), O_RDWR);
  }
  void TearDown() override {
    file_.reset();
    attachment_.reset();
    LoopIo::TearDown();
  }
  test::FakeDevice device_{kSize};
  std::unique_ptr<Attachment> attachment_;
  base::Fd file_;
};

TEST_F(LoopFile, LooksLikeAFileOfTheDevicesSize) {
  EXPECT_EQ(attachment_->where(), mount_dir() + "/disk");
  EXPECT_EQ(attachment_->clients(), 1U);
  struct stat seen;
  ASSERT_EQ(::fstat(file_.get(), &seen), 0);
  EXPECT_EQ(seen.st_size, static_cast<off_t>(kSize));
  EXPECT_EQ(seen.st_mode, S_IFREG | 0600U);
  EXPECT_EQ(seen.st_blksize, 4096);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(mount_dir())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(names, std::vector<std::string>{"disk"});
  EXPECT_FALSE(std::filesystem::exists(mount_dir() + "/other"));
  struct statfs space;
  ASSERT_EQ(::statfs(mount_dir().c_str(), &space), 0);
  EXPECT_EQ(space.f_bsize, 4096);
}

TEST_F(LoopFile, EndsWhereTheDeviceEnds) {
  std::array<char, 2000> data, seen{};
  data.fill('x');
  const off_t near_end = static_cast<off_t>(kSize - 3);
  EXPECT_EQ(::pwrite(file_.get(), data.data(), data.size(), near_end), 3);
  EXPECT_EQ(::pread(file_.get(), seen.data(), seen.size(), near_end), 3);
  EXPECT_EQ(std::string(seen.data(), 3), "xxx");
  EXPECT_EQ(::pread(file_.get(), seen.data(), seen.size(), static_cast<off_t>(kSize)), 0);
  EXPECT_EQ(::pwrite(file_.get(), data.data(), 1, static_cast<off_t>(kSize)), -1);
  EXPECT_EQ(errno, ENOSPC);
}

TEST_F(LoopFile, CantBeResizedOrGivenAway) {
  EXPECT_EQ(::ftruncate(file_.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(kSize) * 2), -1);
  EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(kSize)), 0);
  EXPECT_EQ(::open(attachment_->where().c_str(), O_RDWR | O_TRUNC), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fchmod(file_.get(), 0666), -1);
  EXPECT_EQ(::fallocate(file_.get(), 0, 0, 4096), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  struct stat seen;
  ASSERT_EQ(::fstat(file_.get(), &seen), 0);
  EXPECT_EQ(seen.st_size, static_cast<off_t>(kSize));
}

TEST_F(LoopFile, PunchedRangesAreZeroToTheByteAndSeekFindsHoles) {
  std::vector<char> data(64 << 10, 'a'), seen(64 << 10);
  ASSERT_EQ(::pwrite(file_.get(), data.data(), data.size(), 0), 64 << 10);
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  constexpr int kZero = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  ASSERT_EQ(::fallocate(file_.get(), kPunch, 4095, 8194), 0);
  ASSERT_EQ(::fallocate(file_.get(), kZero, 30001, 9999), 0);
  std::fill_n(data.begin() + 4095, 8194, 0);
  std::fill_n(data.begin() + 30001, 9999, 0);
  ASSERT_EQ(::pread(file_.get(), seen.data(), seen.size(), 0), 64 << 10);
  EXPECT_EQ(seen, data);
  EXPECT_EQ(::lseek(file_.get(), 0, SEEK_HOLE), 4096);
  EXPECT_EQ(::lseek(file_.get(), 4096, SEEK_DATA), 3 * 4096);
  EXPECT_EQ(::lseek(file_.get(), 3 * 4096, SEEK_HOLE), 64 << 10);
  EXPECT_EQ(::lseek(file_.get(), 64 << 10, SEEK_DATA), -1);
  EXPECT_EQ(errno, ENXIO);
  // A range that leaves the file is cut at its end.
  ASSERT_EQ(::fallocate(file_.get(), kPunch, 0, static_cast<off_t>(kSize) * 4), 0);
  EXPECT_EQ(::lseek(file_.get(), 0, SEEK_HOLE), 0);
  struct stat attributes;
  ASSERT_EQ(::fstat(file_.get(), &attributes), 0);
  EXPECT_EQ(attributes.st_size, static_cast<off_t>(kSize));
}

}  // namespace
}  // namespace uzram::attach
