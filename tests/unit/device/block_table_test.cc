// Claims, lives and the way back to free of backing blocks.
#include "device/block_table.h"

#include <gtest/gtest.h>

namespace uzram::device {
namespace {

std::unique_ptr<BlockTable> make(std::uint64_t blocks) {
  return BlockTable::create(blocks).value();
}

TEST(BlockTable, GivesOutEveryBlockOnceAndTheFirstToo) {
  const auto table = make(40);
  const BlockRun first = table->claim(16);
  EXPECT_EQ(first.first, 0U);
  EXPECT_EQ(first.count, 16U);
  EXPECT_EQ(table->claim(16).first, 16U);
  const BlockRun last = table->claim(16);
  EXPECT_EQ(last.first, 32U);
  EXPECT_EQ(last.count, 8U);
  EXPECT_EQ(table->claim(1).count, 0U);
  EXPECT_EQ(table->used(), 40U);
}

TEST(BlockTable, AClaimThatMadeNothingLeavesNothing) {
  const auto table = make(4);
  table->unpin(table->claim(4));
  EXPECT_EQ(table->used(), 0U);
  EXPECT_EQ(table->claim(4).count, 4U);
}

TEST(BlockTable, ABlockLivesAsLongAsAnyObjectTouchesIt) {
  const auto table = make(8);
  const BlockRun run = table->claim(2);
  table->set_check(0, 77);
  table->set_check(1, 77);
  table->make(0, 0, false);
  table->make(0, 130, true);  // goes on in block 1
  table->make(1, 50, false);
  table->unpin(run);
  EXPECT_TRUE(table->goes_on(0, 130));
  EXPECT_FALSE(table->goes_on(0, 0));
  EXPECT_EQ(table->check_of(0), 77U);
  EXPECT_EQ(table->live(1), 2U);
  table->give(1, 50);
  EXPECT_EQ(table->used(), 2U);
  table->give(0, 0);
  EXPECT_EQ(table->used(), 2U);
  table->give(0, 130);
  EXPECT_EQ(table->used(), 0U);
}

TEST(BlockTable, APinnedBlockIsNotFreeWhenItsLastObjectGoes) {
  const auto table = make(1);
  const BlockRun run = table->claim(1);
  table->make(0, 0, false);
  table->give(0, 0);
  EXPECT_EQ(table->claim(1).count, 0U);
  table->unpin(run);
  EXPECT_EQ(table->claim(1).count, 1U);
}

TEST(BlockTable, StaleBlocksAreThoseThatWereUsedAndAreFree) {
  const auto table = make(8);
  EXPECT_FALSE(table->any_stale());
  EXPECT_EQ(table->claim_stale(8).count, 0U);
  const BlockRun run = table->claim(4);
  table->make(1, 0, false);
  table->unpin(run);
  ASSERT_TRUE(table->any_stale());
  const BlockRun one = table->claim_stale(8);
  EXPECT_EQ(one.first, 2U);  // the longest of neighbours
  EXPECT_EQ(one.count, 2U);
  EXPECT_EQ(table->used(), 1U);  // who asks how full the store is means neither of them
  table->unpin(one, true);
  const BlockRun other = table->claim_stale(8);
  EXPECT_EQ(other.first, 0U);
  EXPECT_EQ(other.count, 1U);
  table->unpin(other, true);
  EXPECT_FALSE(table->any_stale());
  EXPECT_EQ(table->used(), 1U);
}

TEST(BlockTable, AResetLeavesWhatIsPinnedToItsClaimer) {
  const auto table = make(8);
  const BlockRun settled = table->claim(2);
  table->make(0, 0, false);
  table->make(1, 0, false);
  table->unpin(settled);
  const BlockRun under_way = table->claim(2);
  table->make(2, 0, false);
  const std::uint64_t epoch = table->epoch();
  table->reset();
  EXPECT_NE(table->epoch(), epoch);
  EXPECT_EQ(table->used(), 2U);
  table->unpin(under_way);
  EXPECT_EQ(table->used(), 0U);
  EXPECT_EQ(table->claim(8).count, 8U);
}

TEST(BlockTable, FindsTheOneFreeBlockFarAway) {
  constexpr std::uint64_t kBlocks = 5000;
  const auto table = make(kBlocks);
  BlockRun run = table->claim(kBlocks);
  std::uint64_t claimed = 0;
  while (run.count > 0) {
    for (std::uint64_t i = 0; i < run.count; ++i) table->make(run.first + i, 0, false);
    table->unpin(run);
    claimed += run.count;
    run = table->claim(kBlocks);
  }
  EXPECT_EQ(claimed, kBlocks);
  table->give(4321, 0);
  run = table->claim(16);
  EXPECT_EQ(run.first, 4321U);
  EXPECT_EQ(run.count, 1U);
}

}  // namespace
}  // namespace uzram::device
