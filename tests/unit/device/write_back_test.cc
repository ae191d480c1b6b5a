// Write-back: what moves, what it costs on the store, and what reads back when the store fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/paged_device.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

using test::FakeStore;
using test::PageKind;
using Kind = FakeStore::Kind;

constexpr std::uint64_t kPages = 1024;

class WriteBack : public testing::Test {
 protected:
  WriteBack() { make(256); }
  void make(std::uint64_t blocks, bool compressed = false, WriteBackLimits limits = {}) {
    device_.reset();
    pages_.clear();
    store_ = std::make_shared<FakeStore>(blocks);
    DeviceOptions options{.size_bytes = kPages * kPageBytes};
    options.backing = store_;
    options.compressed_writeback = compressed;
    options.write_back = limits;
    device_ = create_device(options).value();
    paged_ = dynamic_cast<device::PagedDevice*>(device_.get());
  }
  void TearDown() override {
    for (const auto& [page, data] : pages_) EXPECT_TRUE(get(page) == data) << page;
    EXPECT_EQ(paged_->check(), "");
  }

  void put(std::uint64_t page, const test::Page& data) {
    ASSERT_EQ(device_->write(page * kPageBytes, data), Status::ok);
    pages_[page] = data;
  }
  void put_many(std::uint64_t first, std::uint64_t count, PageKind kind) {
    for (std::uint64_t i = 0; i < count; ++i) put(first + i, test::make_page(random_, kind));
  }
  // Halves under lz4.
  test::Page half_page() {
    test::Page page = test::make_page(random_, PageKind::text);
    test::fill_random(random_, page.data(), kPageBytes / 2);
    return page;
  }
  test::Page get(std::uint64_t page) {
    test::Page data;
    EXPECT_EQ(device_->read(page * kPageBytes, data), Status::ok) << page;
    return data;
  }
  Status read_status(std::uint64_t page, std::uint8_t flags = 0) {
    test::Page data;
    Request request{
        .flags = flags, .offset = page * kPageBytes, .length = kPageBytes, .data = data.data()};
    device_->submit({&request, 1});
    return request.status;
  }
  std::uint64_t write_back(const WriteBackOptions& options = {}) {
    const auto moved = device_->write_back(options);
    EXPECT_TRUE(moved) << moved.error().message;
    return moved.value_or(0);
  }
  Status refusal(const WriteBackOptions& options = {}) {
    const auto moved = device_->write_back(options);
    return moved ? Status::ok : moved.error().status;
  }
  PageState state(std::uint64_t page) {
    PageState out;
    EXPECT_EQ(device_->page_states(page, {&out, 1}), 1U);
    EXPECT_EQ(out.page, page);
    return out;
  }

  std::mt19937_64 random_{11};
  std::shared_ptr<FakeStore> store_;
  std::unique_ptr<Device> device_;
  device::PagedDevice* paged_ = nullptr;
  std::map<std::uint64_t, test::Page> pages_;
};

TEST_F(WriteBack, MovesEveryPageButTheSameFilled) {
  put_many(0, 20, PageKind::incompressible);
  put_many(20, 20, PageKind::text);
  put_many(40, 20, PageKind::same_word);
  EXPECT_EQ(write_back(), 40U);
  const Stats stats = device_->stats();
  EXPECT_EQ(stats.bd_count, 40U);
  EXPECT_EQ(stats.bd_writes, 40U);
  EXPECT_EQ(stats.orig_data_size, 60 * kPageBytes);
  EXPECT_EQ(stats.compr_data_size, 0U);
  EXPECT_EQ(stats.huge_pages, 0U);
  EXPECT_TRUE(state(0).backed);
  EXPECT_FALSE(state(0).huge);
  EXPECT_FALSE(state(40).backed);
  EXPECT_EQ(write_back(), 0U);
  // Read back they stay where they are.
  EXPECT_TRUE(get(7) == pages_[7]);
  EXPECT_TRUE(state(7).backed);
  EXPECT_EQ(device_->stats().bd_reads, 1U);
}

TEST_F(WriteBack, TheStoreIsUsedToItsLastBlockAndTheNextPageStays) {
  make(64);
  put_many(0, 65, PageKind::incompressible);
  EXPECT_EQ(refusal(), Status::no_space);
  EXPECT_EQ(device_->stats().bd_count, 64U);
  EXPECT_EQ(device_->stats().huge_pages, 1U);
  for (std::uint64_t page = 0; page < 65; ++page) EXPECT_TRUE(get(page) == pages_[page]);
  // A page given up makes room for the one that had none.
  ASSERT_EQ(device_->discard(3 * kPageBytes, kPageBytes), Status::ok);
  pages_[3] = {};
  EXPECT_EQ(write_back(), 1U);
  EXPECT_EQ(device_->stats().bd_count, 64U);
}

TEST_F(WriteBack, PackedPagesShareBlocks) {
  make(64, true);
  for (std::uint64_t page = 0; page < 200; ++page) put(page, half_page());
  EXPECT_EQ(refusal(), Status::no_space);
  const std::uint64_t moved = 200 - device_->stats().compr_data_size / 2070;
  EXPECT_EQ(device_->stats().bd_count, 64U);
  EXPECT_GE(moved, 64 * 18 / 10);
  EXPECT_TRUE(state(0).backed);
}

TEST_F(WriteBack, PackedAndRawPagesReadBackInAnyOrderAndPart) {
  make(256, true);
  std::vector<std::byte> all(300 * kPageBytes);
  for (std::uint64_t page = 0; page < 300; ++page) {
    const auto kind = static_cast<PageKind>(random_() % test::kPageKinds);
    put(page, test::make_page(random_, kind));
  }
  write_back();
  ASSERT_EQ(device_->read(0, all), Status::ok);
  for (std::uint64_t page = 0; page < 300; ++page) {
    EXPECT_EQ(std::memcmp(all.data() + page * kPageBytes, pages_[page].data(), kPageBytes), 0);
  }
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t at = random_() % (300 * kPageBytes - 9000), length = 1 + random_() % 9000;
    std::vector<std::byte> part(length);
    ASSERT_EQ(device_->read(at, part), Status::ok);
    ASSERT_EQ(std::memcmp(part.data(), all.data() + at, length), 0);
  }
}

TEST_F(WriteBack, NothingGoesToTheStoreThatIsNoPagesByte) {
  make(64, true);
  // Other bytes first, so that every buffer on the way has held some.
  put_many(0, 64, PageKind::incompressible);
  write_back();
  device_->reset();
  pages_.clear();
  put(0, test::make_page(random_, PageKind::text));
  EXPECT_EQ(write_back(), 1U);
  const std::uint64_t packed = 4096 - 1000;
  const auto block = store_->block(0);
  EXPECT_TRUE(std::all_of(block.end() - packed, block.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_F(WriteBack, TakesTheClassThatWasAskedFor) {
  put_many(0, 10, PageKind::incompressible);
  put_many(10, 10, PageKind::text);
  EXPECT_EQ(write_back({.pages = PageClass::idle}), 0U);
  ASSERT_EQ(device_->mark_idle(0).value(), 20U);
  get(0);
  get(10);
  EXPECT_EQ(write_back({.pages = PageClass::huge_idle}), 9U);
  EXPECT_EQ(write_back({.pages = PageClass::huge}), 1U);
  EXPECT_EQ(write_back({.pages = PageClass::idle}), 9U);
  EXPECT_EQ(write_back({.pages = PageClass::incompressible}), 0U);
  EXPECT_EQ(write_back(), 1U);
}

TEST_F(WriteBack, TakesThePagesThatWereNamed) {
  put_many(0, 32, PageKind::text);
  EXPECT_EQ(write_back({.ranges = {{5, 5}, {20, 22}, {21, 23}, {5, 5}, {900, 1000}}}), 5U);
  EXPECT_TRUE(state(5).backed);
  EXPECT_TRUE(state(23).backed);
  EXPECT_FALSE(state(6).backed);
  EXPECT_EQ(refusal({.ranges = {{6, 6}, {0, kPages}}}), Status::out_of_range);
  EXPECT_EQ(refusal({.ranges = {{6, 5}}}), Status::out_of_range);
  EXPECT_FALSE(state(6).backed);
}

TEST_F(WriteBack, TheBudgetIsSpentByWhatIsWrittenAndByNothingElse) {
  put_many(0, 40, PageKind::incompressible);
  ASSERT_EQ(device_->change_write_back_limits({.limited = true, .budget_blocks = 25}), Status::ok);
  EXPECT_EQ(refusal(), Status::io_error);
  EXPECT_EQ(device_->stats().bd_count, 25U);
  EXPECT_EQ(device_->write_back_limits().budget_blocks, 0U);
  EXPECT_EQ(refusal(), Status::io_error);
  ASSERT_EQ(device_->change_write_back_limits({.limited = true, .budget_blocks = 100}), Status::ok);
  store_->fail_nth(Kind::write, 0, Status::io_error);
  EXPECT_EQ(refusal(), Status::io_error);
  EXPECT_EQ(device_->write_back_limits().budget_blocks, 100U);
  EXPECT_EQ(write_back(), 15U);
  EXPECT_EQ(device_->write_back_limits().budget_blocks, 85U);
  EXPECT_EQ(write_back(), 0U);
  EXPECT_EQ(device_->change_write_back_limits({.batch_size = 0}), Status::invalid_argument);
}

TEST_F(WriteBack, WritesAsManyAtATimeAsItWasTold) {
  make(256, false, {.batch_size = 3});
  put_many(0, 200, PageKind::incompressible);
  write_back();
  EXPECT_LE(store_->in_flight_peak(), 3U);
  EXPECT_GE(store_->in_flight_peak(), 2U);
}

TEST_F(WriteBack, AFailedWriteLeavesItsPagesInMemoryAndGoesOn) {
  put_many(0, 64, PageKind::incompressible);
  ASSERT_EQ(device_->mark_idle(0).value(), 64U);
  store_->fail_nth(Kind::write, 1, Status::io_error);
  EXPECT_EQ(refusal({.pages = PageClass::idle}), Status::io_error);
  EXPECT_EQ(device_->stats().bd_count, 48U);
  EXPECT_EQ(device_->stats().huge_pages, 16U);
  // They are idle still, so that the next pass takes them.
  EXPECT_EQ(write_back({.pages = PageClass::idle}), 16U);
  EXPECT_EQ(paged_->check(), "");
}

TEST_F(WriteBack, BlocksThatALateWriteMayReachAreNeverUsedAgain) {
  make(32);
  put_many(0, 16, PageKind::incompressible);
  store_->lose_answers();
  store_->fail_nth(Kind::write, 0, Status::io_error);
  EXPECT_EQ(refusal({.ranges = {{0, 0}}}), Status::io_error);
  EXPECT_EQ(device_->stats().bd_count, 0U);
  EXPECT_EQ(write_back(), 16U);
  EXPECT_EQ(device_->stats().bd_count, 16U);
  for (const std::byte byte : store_->block(0)) EXPECT_EQ(byte, std::byte{0});
  put_many(16, 16, PageKind::incompressible);
  EXPECT_EQ(refusal(), Status::no_space);
  EXPECT_EQ(device_->stats().bd_count, 31U);
  // So it is with a discard that may come late.
  ASSERT_EQ(device_->discard(0, kPageBytes), Status::ok);
  pages_[0] = {};
  store_->wait_until_discarded(1);
  EXPECT_EQ(refusal(), Status::no_space);
  EXPECT_EQ(device_->stats().bd_count, 30U);
}

TEST_F(WriteBack, WhatIsGivenBackIsNotAddedToABudgetSetMeanwhile) {
  put_many(0, 5, PageKind::incompressible);
  ASSERT_EQ(device_->change_write_back_limits({.limited = true, .budget_blocks = 100}), Status::ok);
  store_->hold(Kind::write);
  store_->fail_nth(Kind::write, 0, Status::io_error);
  std::thread pass([&] { EXPECT_EQ(refusal({.pages = PageClass::huge}), Status::io_error); });
  store_->wait_until_held(1);
  ASSERT_EQ(device_->change_write_back_limits({.limited = true, .budget_blocks = 7}), Status::ok);
  store_->release();
  pass.join();
  EXPECT_EQ(device_->write_back_limits().budget_blocks, 7U);
}

TEST_F(WriteBack, AnotherBatchSizeLeavesTheBudgetToThePassThatSpendsIt) {
  put_many(0, 40, PageKind::incompressible);
  ASSERT_EQ(device_->change_write_back_limits({.limited = true, .budget_blocks = 100}), Status::ok);
  store_->hold(Kind::write);
  store_->fail_nth(Kind::write, 0, Status::io_error);
  std::thread pass([&] { EXPECT_EQ(refusal({.pages = PageClass::huge}), Status::io_error); });
  store_->wait_until_held(1);
  const std::uint64_t meanwhile = device_->write_back_limits().budget_blocks;
  EXPECT_LT(meanwhile, 100U);
  ASSERT_EQ(device_->change_write_back_limits({.batch_size = 2}), Status::ok);
  EXPECT_EQ(device_->write_back_limits().budget_blocks, meanwhile);
  store_->release();
  pass.join();
  EXPECT_EQ(device_->write_back_limits().budget_blocks, 100 - device_->stats().bd_count);
}

TEST_F(WriteBack, ADiscardDropsItsWholePagesThoughAnEdgeCanNotBeRead) {
  put_many(0, 4, PageKind::incompressible);
  ASSERT_EQ(write_back(), 4U);
  store_->fail_all(Kind::read, Status::io_error);
  EXPECT_EQ(device_->discard(100, 3 * kPageBytes), Status::ok);
  store_->fail_all(Kind::read, Status::ok);
  EXPECT_EQ(device_->stats().bd_count, 2U);
  pages_[1] = pages_[2] = {};
}

TEST_F(WriteBack, AFlippedBitIsThatPagesErrorAloneAndHealsByOverwriteOrDiscard) {
  for (const bool compressed : {false, true}) {
    make(256, compressed);
    for (std::uint64_t page = 0; page < 60; ++page) put(page, half_page());
    ASSERT_EQ(write_back(), 60U);
    const std::uint64_t used = device_->stats().bd_count;
    store_->flip_bit(used / 2, 100);
    std::vector<std::uint64_t> bad;
    for (std::uint64_t page = 0; page < 60; ++page) {
      if (read_status(page) == Status::ok) continue;
      EXPECT_EQ(read_status(page), Status::io_error);
      bad.push_back(page);
    }
    ASSERT_EQ(bad.size(), 1U);
    // A part of what can't be read can't be changed.
    const std::array<std::byte, 100> part{};
    EXPECT_EQ(device_->write(bad[0] * kPageBytes + 5, part), Status::io_error);
    put(bad[0], half_page());
    EXPECT_TRUE(get(bad[0]) == pages_[bad[0]]);
    EXPECT_EQ(device_->stats().failed_reads, 2U);
    EXPECT_EQ(device_->discard(bad[0] * kPageBytes, kPageBytes), Status::ok);
    pages_[bad[0]] = {};
    TearDown();
  }
}

TEST_F(WriteBack, AReadErrorOfOneBlockDoesNotReachItsNeighbours) {
  put_many(0, 64, PageKind::incompressible);
  ASSERT_EQ(write_back(), 64U);
  std::vector<std::byte> all(64 * kPageBytes);
  store_->fail_nth(Kind::read, 0, Status::io_error);
  EXPECT_EQ(device_->read(0, all), Status::ok);  // read once more, page by page
  store_->fail_all(Kind::read, Status::io_error);
  EXPECT_EQ(read_status(3), Status::io_error);
  store_->fail_all(Kind::read, Status::ok);
  EXPECT_EQ(read_status(3), Status::ok);
}

TEST_F(WriteBack, ABlockThatTheStoreForgotIsAnErrorEvenIfItOnceWasRight) {
  for (const bool compressed : {false, true}) {
    make(16, compressed);
    put(0, half_page());
    ASSERT_EQ(write_back(), 1U);
    const auto old = store_->block(0);
    ASSERT_EQ(device_->discard(0, kPageBytes), Status::ok);
    device_->reset();  // so that block 0 is the next one again
    put_many(1, 15, PageKind::incompressible);
    write_back();
    put(0, half_page());
    write_back();
    for (std::uint64_t block = 0; block < 16; ++block) {
      const auto now = store_->block(block);
      for (std::uint64_t at = 0; at < kPageBytes; ++at) {
        const auto changed = static_cast<unsigned>(now[at] ^ old[at]);
        for (unsigned bit = 0; bit < 8; ++bit) {
          if ((changed >> bit & 1U) != 0) store_->flip_bit(block, at * 8 + bit);
        }
      }
      ASSERT_TRUE(store_->block(block) == old);
    }
    for (std::uint64_t page = 0; page < 16; ++page) {
      EXPECT_EQ(read_status(page), Status::io_error) << page;
    }
    pages_.clear();
  }
}

TEST_F(WriteBack, ARequestThatMayNotWaitSaysSoAndChangesNothing) {
  put_many(0, 8, PageKind::text);
  write_back({.ranges = {{2, 3}}});
  EXPECT_EQ(read_status(1, kNoWait), Status::ok);
  EXPECT_EQ(read_status(2, kNoWait), Status::would_block);
  EXPECT_EQ(store_->count(Kind::read), 0U);
  std::vector<std::byte> in(3 * kPageBytes, std::byte{9});
  Request request{.op = Op::write,
                  .flags = kNoWait,
                  .offset = 2 * kPageBytes + 1,
                  .length = 100,
                  .data = in.data()};
  device_->submit({&request, 1});
  EXPECT_EQ(request.status, Status::would_block);
  // A whole page needs nothing of what was there.
  request = {.op = Op::write,
             .flags = kNoWait,
             .offset = 2 * kPageBytes,
             .length = kPageBytes,
             .data = in.data()};
  device_->submit({&request, 1});
  EXPECT_EQ(request.status, Status::ok);
  std::fill_n(pages_[2].begin(), kPageBytes, std::byte{9});
  // Page 1 and 2 are in memory; the tail in page 3 is not.
  request = {.op = Op::write,
             .flags = kNoWait,
             .offset = kPageBytes,
             .length = 2 * kPageBytes + 7,
             .data = in.data()};
  device_->submit({&request, 1});
  EXPECT_EQ(request.status, Status::would_block);
  request = {
      .op = Op::discard, .flags = kNoWait, .offset = kPageBytes, .length = 2 * kPageBytes + 7};
  device_->submit({&request, 1});
  EXPECT_EQ(request.status, Status::would_block);
  EXPECT_EQ(device_->stats().failed_reads, 0U);
  EXPECT_EQ(device_->stats().failed_writes, 0U);
}

TEST_F(WriteBack, PartsOfBackedPagesAreChangedExactly) {
  put_many(0, 8, PageKind::incompressible);
  write_back();
  std::vector<std::byte> in(2 * kPageBytes, std::byte{7});
  ASSERT_EQ(device_->write(kPageBytes + 10, std::span(in).first(20)), Status::ok);
  std::fill_n(pages_[1].begin() + 10, 20, std::byte{7});
  ASSERT_EQ(device_->write(3 * kPageBytes - 5, std::span(in).first(kPageBytes + 10)), Status::ok);
  std::fill_n(pages_[2].end() - 5, 5, std::byte{7});
  pages_[3].fill(std::byte{7});
  std::fill_n(pages_[4].begin(), 5, std::byte{7});
  ASSERT_EQ(device_->write_zeroes(6 * kPageBytes - 3, 6), Status::ok);
  std::fill_n(pages_[5].end() - 3, 3, std::byte{0});
  std::fill_n(pages_[6].begin(), 3, std::byte{0});
  EXPECT_FALSE(state(1).backed);
  EXPECT_EQ(device_->stats().bd_count, 2U);  // pages 0 and 7
  EXPECT_EQ(device_->stats().writes, 10U);
  EXPECT_EQ(device_->stats().discards, 1U);
}

TEST_F(WriteBack, APageThatIsUsedMeanwhileStaysWithWhatWasWritten) {
  put_many(0, 4, PageKind::incompressible);
  store_->hold(Kind::write);
  std::uint64_t moved = 0;
  std::thread pass([&] { moved = write_back({.pages = PageClass::huge}); });
  store_->wait_until_held(1);
  put(1, test::make_page(random_, PageKind::text));
  ASSERT_EQ(device_->discard(2 * kPageBytes, kPageBytes), Status::ok);
  EXPECT_TRUE(get(3) == pages_[3]);  // in memory as long as the write is under way, and not held up
  EXPECT_EQ(refusal(), Status::would_block);
  store_->release();
  pass.join();
  EXPECT_EQ(moved, 1U);
  EXPECT_EQ(device_->stats().bd_count, 1U);
  pages_[2] = {};
}

TEST_F(WriteBack, AReaderThatWaitsForTheStoreSeesAPageOfItsTimeAndHoldsUpNobody) {
  put_many(0, 4, PageKind::incompressible);
  write_back({.ranges = {{0, 1}}});
  store_->hold(Kind::read);
  std::vector<std::byte> out(4 * kPageBytes);
  std::thread reader([&] { EXPECT_EQ(device_->read(0, out), Status::ok); });
  store_->wait_until_held(1);
  EXPECT_TRUE(get(2) == pages_[2]);
  put(0, test::make_page(random_, PageKind::text));  // not held up by the reader either
  device_->compact();
  store_->release();
  reader.join();
  for (std::uint64_t page = 0; page < 4; ++page) {
    EXPECT_EQ(std::memcmp(out.data() + page * kPageBytes, pages_[page].data(), kPageBytes), 0)
        << page;
  }
}

// The place of a page may be another's by the time a change has read it.
TEST_F(WriteBack, AChangeThatReadAnOldPlaceStartsAgain) {
  make(1);
  put(0, test::make_page(random_, PageKind::incompressible));
  write_back();
  store_->hold(Kind::read);
  const std::array<std::byte, 3> in{std::byte{1}, std::byte{2}, std::byte{3}};
  std::thread writer([&] { EXPECT_EQ(device_->write(100, in), Status::ok); });
  store_->wait_until_held(1);
  put(0, test::make_page(random_, PageKind::incompressible));
  EXPECT_EQ(write_back(), 1U);  // to the same block
  store_->release();
  writer.join();
  std::copy(in.begin(), in.end(), pages_[0].begin() + 100);
}

TEST_F(WriteBack, AResetMeetsAPassThatIsUnderWay) {
  put_many(0, 20, PageKind::incompressible);
  write_back({.ranges = {{0, 3}}});
  store_->hold(Kind::write);
  std::uint64_t moved = 1;
  std::thread pass([&] { moved = write_back(); });
  store_->wait_until_held(1);
  device_->reset();
  pages_.clear();
  put_many(5, 3, PageKind::text);
  EXPECT_EQ(device_->stats().bd_reads, 0U);
  store_->release();
  pass.join();
  EXPECT_EQ(paged_->check(), "");
  for (const auto& [page, data] : pages_) EXPECT_TRUE(get(page) == data);
}

TEST_F(WriteBack, FreedBlocksAreDiscardedOnceTheDeviceRests) {
  put_many(0, 8, PageKind::incompressible);
  write_back();
  ASSERT_EQ(device_->discard(0, 8 * kPageBytes), Status::ok);
  pages_.clear();
  store_->wait_until_discarded(8);
  EXPECT_EQ(device_->stats().bd_count, 0U);
  put_many(0, 8, PageKind::incompressible);
  EXPECT_EQ(write_back(), 8U);
}

TEST_F(WriteBack, WithoutAStoreThereIsNone) {
  const auto bare = create_device({.size_bytes = kPages * kPageBytes}).value();
  EXPECT_EQ(bare->write_back({}).error().status, Status::no_device);
  // Scripts set them whatever the device has.
  EXPECT_EQ(bare->change_write_back_limits({.limited = true, .budget_blocks = 7}), Status::ok);
  EXPECT_EQ(bare->write_back_limits().budget_blocks, 7U);
  DeviceOptions ram{.type = DeviceType::ram, .size_bytes = kPageBytes};
  ram.backing = std::make_shared<FakeStore>(1);
  EXPECT_EQ(create_device(ram).error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace uzram
