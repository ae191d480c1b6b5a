#include "backing/file_store.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/backing/blocks.h"
#include "tests/unit/backing/file_support.h"

namespace uzram::backing {
namespace {

using test::Blocks;
using test::disk_bytes_of;
using test::make_file;

struct Way {
  const char* name;
  FileSystemCalls calls;
};

std::unique_ptr<Ring> refuse_ring(unsigned) noexcept {
  return nullptr;
}

class FileStore : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<Store> open(std::uint64_t blocks) {
    return reopen(make_file(path_, blocks * kBlockBytes));
  }
  std::unique_ptr<Store> reopen(const std::string& path) {
    auto store = open_file_store(path, GetParam().calls);
    if (!store) throw std::runtime_error(store.error().message);
    return std::move(*store);
  }
  // An Io for each block from `first` on.
  static std::vector<Io> batch_of(Io::Kind kind, std::uint64_t first, const Blocks& blocks) {
    std::vector<Io> batch;
    for (std::size_t i = 0; i < blocks.all().size() / kBlockBytes; ++i) {
      batch.push_back({kind, (first + i) * kBlockBytes, blocks.block(i), Status::would_block});
    }
    return batch;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_.path() + "/store";
};

TEST_P(FileStore, FirstAndLastBlock) {
  auto store = open(64);
  EXPECT_EQ(store->where(), path_);
  EXPECT_EQ(store->block_count(), 64U);
  Blocks first(1), last(1), got(1);
  first.fill(1);
  last.fill(2);
  EXPECT_EQ(write(*store, 0, first), Status::ok);
  EXPECT_EQ(write(*store, 63, last), Status::ok);
  EXPECT_EQ(write(*store, 64, last), Status::out_of_range);
  store.reset();
  store = reopen(path_);
  EXPECT_EQ(read(*store, 0, got), Status::ok);
  EXPECT_TRUE(got == first);
  EXPECT_EQ(read(*store, 63, got), Status::ok);
  EXPECT_TRUE(got == last);
  EXPECT_EQ(read(*store, 1, got), Status::ok);
  EXPECT_TRUE(got == Blocks(1));
}

TEST_P(FileStore, ShutDownFailsWhatComesLater) {
  auto store = open(8);
  Blocks in(8), got(8);
  in.fill(1);
  ASSERT_EQ(write(*store, 0, in), Status::ok);
  store->shut_down();
  EXPECT_EQ(read(*store, 0, got), Status::io_error);
  EXPECT_EQ(read(*store, 1, got), Status::out_of_range);
  std::vector<Io> batch = batch_of(Io::Kind::write, 0, got);
  store->run(batch, 8);
  for (const Io& io : batch) EXPECT_EQ(io.status, Status::io_error);
  store->discard(0, 8);
  store.reset();
  store = reopen(path_);
  EXPECT_EQ(read(*store, 0, got), Status::ok);
  EXPECT_TRUE(got == in);
}

// More than a ring is deep, and other numbers in flight than a power of two.
TEST_P(FileStore, Batches) {
  constexpr std::uint64_t kBlocks = 2 * kInFlightMax + 3;
  const auto store = open(kBlocks);
  for (const unsigned in_flight : {0U, 1U, 3U, kInFlightMax, ~0U}) {
    Blocks in(kBlocks), out(kBlocks);
    in.fill(in_flight + 1);
    auto writes = batch_of(Io::Kind::write, 0, in);
    store->run(writes, in_flight);
    auto reads = batch_of(Io::Kind::read, 0, out);
    store->run(reads, in_flight);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(writes[i].status, Status::ok);
      ASSERT_EQ(reads[i].status, Status::ok);
    }
    EXPECT_TRUE(in == out);
  }
  store->run({}, 8);
}

TEST_P(FileStore, OneBadIoEndsNoOther) {
  const auto store = open(8);
  Blocks in(8), out(8);
  in.fill(7);
  auto batch = batch_of(Io::Kind::write, 0, in);
  batch[2].offset += 512;
  batch[5].offset = 8 * kBlockBytes;
  store->run(batch, 4);
  EXPECT_EQ(batch[2].status, Status::invalid_argument);
  EXPECT_EQ(batch[5].status, Status::out_of_range);
  ASSERT_EQ(read(*store, 0, out), Status::ok);
  for (const std::size_t i : {0U, 1U, 3U, 4U, 6U, 7U}) {
    EXPECT_EQ(batch[i].status, Status::ok);
    EXPECT_EQ(std::memcmp(out.block(i).data(), in.block(i).data(), kBlockBytes), 0) << i;
  }
}

TEST_P(FileStore, FourThreads) {
  constexpr std::uint64_t kEach = 32;
  const auto store = open(4 * kEach);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (std::uint64_t round = 0; round < 20; ++round) {
        Blocks in(kEach), out(kEach);
        in.fill(4 * round + t);
        auto writes = batch_of(Io::Kind::write, t * kEach, in);
        store->run(writes, 8);
        EXPECT_EQ(read(*store, t * kEach, out), Status::ok);
        EXPECT_TRUE(in == out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(FileStore, SecondUserIsRefusedAndTheFirstGoesOn) {
  const auto store = open(2);
  const auto second = open_file_store(path_, GetParam().calls);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, Status::busy);
  Blocks in(2), out(2);
  in.fill(3);
  EXPECT_EQ(write(*store, 0, in), Status::ok);
  EXPECT_EQ(read(*store, 0, out), Status::ok);
  EXPECT_TRUE(in == out);
  EXPECT_FALSE(open_file_store(path_, GetParam().calls));  // the refusal took no lock away
}

TEST_P(FileStore, DiscardGivesSpaceBack) {
  constexpr std::uint64_t kBlocks = 256;
  const auto store = open(kBlocks);
  Blocks in(kBlocks), out(1);
  in.fill(4);
  ASSERT_EQ(write(*store, 0, in), Status::ok);
  const base::Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(file.get()), 0);  // until then some file systems count no blocks
  const std::uint64_t before = disk_bytes_of(path_);
  ASSERT_GE(before, kBlocks * kBlockBytes);
  store->discard(1, 128);
  EXPECT_LE(disk_bytes_of(path_), before - 128 * kBlockBytes);
  store->discard(255, UINT64_MAX);
  store->discard(256, 1);
  store->discard(0, 0);
  for (const std::uint64_t kept : {0U, 129U, 254U}) {
    ASSERT_EQ(read(*store, kept, out), Status::ok);
    EXPECT_EQ(std::memcmp(out.all().data(), in.block(kept).data(), kBlockBytes), 0) << kept;
  }
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_size, static_cast<off_t>(kBlocks * kBlockBytes));
  EXPECT_EQ(write(*store, 1, out), Status::ok);
}

TEST_P(FileStore, ShortenedBehindItsBack) {
  const auto store = open(8);
  ASSERT_EQ(::truncate(path_.c_str(), 2 * kBlockBytes + 100), 0);
  const Blocks blocks(8);
  EXPECT_EQ(read(*store, 7, Blocks(1)), Status::io_error);
  auto batch = batch_of(Io::Kind::read, 0, blocks);
  store->run(batch, 4);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch[i].status, i < 2 ? Status::ok : Status::io_error) << i;
  }
}

TEST_P(FileStore, DiskFull) {
  ASSERT_EQ(::mkdir((dir_.path() + "/small").c_str(), 0700), 0);
  const std::string small = dir_.path() + "/small";
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "needs root: mount of a tmpfs";
  }
  {
    const auto store = reopen(make_file(small + "/sparse", 1 << 20));
    const Blocks blocks(256);
    auto batch = batch_of(Io::Kind::write, 0, blocks);
    store->run(batch, 8);
    std::size_t stored = 0;
    for (const Io& io : batch) {
      stored += io.status == Status::ok;
      EXPECT_TRUE(io.status == Status::ok || io.status == Status::no_space);
    }
    EXPECT_EQ(stored, 16U);
    EXPECT_EQ(write(*store, 255, Blocks(1)), Status::no_space);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].status == Status::ok) store->discard(i, 1);
    }
    EXPECT_EQ(write(*store, 255, Blocks(1)), Status::ok);
  }
  EXPECT_EQ(::umount(small.c_str()), 0);
}

// Also where the file system lets O_DIRECT in and where it does not.
TEST_P(FileStore, NothingStaysInThePageCache) {
  const auto store = open(64);
  struct statfs system {};
  ASSERT_EQ(::statfs(path_.c_str(), &system), 0);
  if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "needs a temporary directory on a disk";
  Blocks blocks(64);
  blocks.fill(5);
  auto batch = batch_of(Io::Kind::write, 0, blocks);
  store->run(batch, 8);
  ASSERT_EQ(read(*store, 0, blocks), Status::ok);
  const base::Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  void* const map = ::mmap(nullptr, 64 * kBlockBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> resident(64);
  EXPECT_EQ(::mincore(map, 64 * kBlockBytes, resident.data()), 0);
  for (const unsigned char page : resident) EXPECT_EQ(page & 1U, 0U);
  EXPECT_EQ(::munmap(map, 64 * kBlockBytes), 0);
}

TEST_P(FileStore, BlockDevice) {
  const test::LoopDevice device(make_file(path_, 1 << 20));
  if (device.path().empty()) GTEST_SKIP() << "needs root and loop devices (losetup)";
  const auto store = reopen(device.path());
  ASSERT_EQ(store->block_count(), 256U);
  const auto second = open_file_store(device.path(), GetParam().calls);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, Status::busy);
  Blocks in(256), out(256);
  in.fill(6);
  auto batch = batch_of(Io::Kind::write, 0, in);
  store->run(batch, 16);
  ASSERT_EQ(read(*store, 0, out), Status::ok);
  EXPECT_TRUE(in == out);
  EXPECT_EQ(write(*store, 256, Blocks(1)), Status::out_of_range);
  const base::Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(file.get()), 0);
  const std::uint64_t before = disk_bytes_of(path_);
  store->discard(0, 255);
  EXPECT_LE(disk_bytes_of(path_) + 255 * kBlockBytes, before);
  ASSERT_EQ(read(*store, 255, Blocks(1)), Status::ok);
}

INSTANTIATE_TEST_SUITE_P(Ways, FileStore,
                         testing::Values(Way{"ring", {}}, Way{"no_ring", {&refuse_ring, true}},
                                         Way{"buffered", {&Ring::create, false}},
                                         Way{"buffered_no_ring", {&refuse_ring, false}}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST(FileStoreRing, BatchesUseOne) {
  static unsigned made, depth_made;
  made = depth_made = 0;
  FileSystemCalls calls;
  calls.create_ring = [](unsigned depth) noexcept {
    ++made;
    depth_made = depth;
    return Ring::create(depth);
  };
  const test::TempDir dir;
  const auto store = open_file_store(make_file(dir.path() + "/store", 8 * kBlockBytes), calls);
  ASSERT_TRUE(store) << store.error().message;
  if (Ring::create(2) == nullptr) GTEST_SKIP() << "needs io_uring";
  const Blocks blocks(3);
  std::vector<Io> batch;
  for (std::size_t i = 0; i < 3; ++i) {
    batch.push_back({Io::Kind::read, i * kBlockBytes, blocks.block(i), Status::would_block});
  }
  (*store)->run({batch.data(), 1}, 8);
  EXPECT_EQ(made, 0U);
  (*store)->run(batch, 8);
  EXPECT_EQ(depth_made, 4U);
  (*store)->run(batch, 2);
  EXPECT_EQ(made, 1U);  // the one at rest
}

TEST(FileStorePath, OnTmpfs) {
  const std::string path = "/dev/shm/uzram-backing-" + std::to_string(::getpid());
  make_file(path, 4 * kBlockBytes);
  const auto store = open_store(path);
  EXPECT_TRUE(store);
  if (store) {
    Blocks in(4), out(4);
    in.fill(8);
    EXPECT_EQ(write(**store, 0, in), Status::ok);
    EXPECT_EQ(read(**store, 0, out), Status::ok);
    EXPECT_TRUE(in == out);
  }
  EXPECT_EQ(::unlink(path.c_str()), 0);
}

}  // namespace
}  // namespace uzram::backing
