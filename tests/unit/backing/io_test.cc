#include <gtest/gtest.h>

#include <cstdint>

#include "backing/store.h"
#include "tests/unit/backing/blocks.h"

namespace uzram::backing {
namespace {

using test::Blocks;

Status check(std::uint64_t offset, std::span<std::byte> data, std::uint64_t block_count) {
  return check_io({Io::Kind::read, offset, data, Status::ok}, block_count);
}

TEST(BackingIo, WholeBlocksWithinTheStore) {
  const Blocks blocks(2);
  EXPECT_EQ(check(0, blocks.block(0), 1), Status::ok);
  EXPECT_EQ(check(0, blocks.all(), 2), Status::ok);
  EXPECT_EQ(check(kBlockBytes, blocks.block(0), 2), Status::ok);
}

TEST(BackingIo, PastTheEnd) {
  const Blocks blocks(2);
  EXPECT_EQ(check(0, blocks.block(0), 0), Status::out_of_range);
  EXPECT_EQ(check(0, blocks.all(), 1), Status::out_of_range);
  EXPECT_EQ(check(kBlockBytes, blocks.all(), 2), Status::out_of_range);
  EXPECT_EQ(check(2 * kBlockBytes, blocks.block(0), 2), Status::out_of_range);
  // The end of this one is 0 in 64 bits.
  EXPECT_EQ(check(UINT64_MAX - kBlockBytes + 1, blocks.all(), 2), Status::out_of_range);
}

TEST(BackingIo, NoWholeBlocks) {
  const Blocks blocks(3);
  EXPECT_EQ(check(0, {}, 3), Status::invalid_argument);
  EXPECT_EQ(check(512, blocks.block(0), 3), Status::invalid_argument);
  EXPECT_EQ(check(0, blocks.all().first(kBlockBytes - 1), 3), Status::invalid_argument);
  EXPECT_EQ(check(0, blocks.all().subspan(512, kBlockBytes), 3), Status::invalid_argument);
}

TEST(BackingIo, DiscardIsClipped) {
  const auto clipped = [](std::uint64_t first, std::uint64_t count) {
    const ByteRange range = clip_discard(first, count, 8);
    return std::pair(range.offset, range.length);
  };
  EXPECT_EQ(clipped(0, 8), std::pair(std::uint64_t{0}, 8 * kBlockBytes));
  EXPECT_EQ(clipped(7, UINT64_MAX), std::pair(7 * kBlockBytes, kBlockBytes));
  EXPECT_EQ(clipped(8, 1).second, 0U);
  EXPECT_EQ(clipped(UINT64_MAX, UINT64_MAX).second, 0U);
  EXPECT_EQ(clipped(3, 0).second, 0U);
}

}  // namespace
}  // namespace uzram::backing
