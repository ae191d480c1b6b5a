// Idle marking, recompression, and what is told of each page.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kPages = 512;

// Random hex digits: lz4 finds nothing in them, an entropy coder halves them.
test::Page hex_page(std::mt19937_64& random) {
  test::Page page;
  for (std::byte& byte : page) byte = static_cast<std::byte>("0123456789abcdef"[random() % 16]);
  return page;
}

class Recompress : public testing::Test {
 protected:
  Recompress() {
    DeviceOptions options{.size_bytes = kPages * kPageBytes};
    options.recompress_codecs[0] = CodecChoice{"zstd", {}};
    options.recompress_codecs[2] = CodecChoice{"deflate", {.level = 9}};
    make(options);
  }
  void make(const DeviceOptions& options) {
    device_ = create_device(options).value();
    paged_ = dynamic_cast<device::PagedDevice*>(device_.get());
  }
  void TearDown() override {
    for (const auto& [page, data] : stored_) EXPECT_TRUE(get(page) == data) << page;
    EXPECT_EQ(paged_->check(), "");
  }

  void put(std::uint64_t page, const test::Page& data) {
    ASSERT_EQ(device_->write(page * kPageBytes, data), Status::ok);
    std::erase_if(stored_, [page](const auto& entry) { return entry.first == page; });
    stored_.emplace_back(page, data);
  }
  test::Page get(std::uint64_t page) {
    test::Page data;
    EXPECT_EQ(device_->read(page * kPageBytes, data), Status::ok);
    return data;
  }
  std::uint64_t recompress(const RecompressOptions& options = {}) {
    const auto done = device_->recompress(options);
    EXPECT_TRUE(done) << done.error().message;
    return done.value_or(0);
  }
  Status refusal(const RecompressOptions& options) {
    const auto done = device_->recompress(options);
    return done ? Status::ok : done.error().status;
  }
  PageState state(std::uint64_t page) {
    PageState out;
    EXPECT_EQ(device_->page_states(page, {&out, 1}), 1U);
    EXPECT_EQ(out.page, page);
    return out;
  }

  std::mt19937_64 random_{7};
  std::unique_ptr<Device> device_;
  device::PagedDevice* paged_ = nullptr;
  std::vector<std::pair<std::uint64_t, test::Page>> stored_;
};

TEST_F(Recompress, PacksSmallerOnceAndKeepsEveryByte) {
  for (std::uint64_t page = 0; page < 100; ++page) put(page, hex_page(random_));
  put(100, test::make_page(random_, test::PageKind::incompressible));
  put(101, test::make_page(random_, test::PageKind::same_word));
  const Stats before = device_->stats();
  ASSERT_EQ(before.huge_pages, 101U);
  EXPECT_EQ(recompress(), 100U);
  const Stats after = device_->stats();
  EXPECT_EQ(after.huge_pages, 1U);
  EXPECT_LT(after.compr_data_size, before.compr_data_size * 6 / 10);
  EXPECT_EQ(after.orig_data_size, before.orig_data_size);
  EXPECT_TRUE(state(0).recompressed);
  EXPECT_FALSE(state(0).huge);
  EXPECT_TRUE(state(100).incompressible);
  EXPECT_FALSE(state(101).recompressed);
  // Once with each codec at most: then there is none left to try.
  recompress();
  EXPECT_EQ(recompress(), 0U);
}

TEST_F(Recompress, TakesWhatWasAskedForAndNoMore) {
  for (std::uint64_t page = 0; page < 20; ++page) put(page, hex_page(random_));
  for (std::uint64_t page = 20; page < 40; ++page) {
    test::Page noisy = test::make_page(random_, test::PageKind::text);
    std::copy_n(hex_page(random_).begin(), 2000, noisy.begin());
    put(page, noisy);
  }
  EXPECT_EQ(recompress({.pages = PageClass::idle}), 0U);
  EXPECT_EQ(recompress({.pages = PageClass::huge_idle}), 0U);
  EXPECT_EQ(recompress({.pages = PageClass::huge, .pages_max = 5}), 5U);
  EXPECT_EQ(device_->stats().huge_pages, 15U);
  ASSERT_EQ(device_->mark_idle(0).value(), 40U);
  stored_.erase(stored_.begin() + 10);  // not read again, so that it stays idle
  EXPECT_EQ(get(10).size(), kPageBytes);
  EXPECT_EQ(recompress({.pages = PageClass::huge_idle}), 14U);
  EXPECT_EQ(device_->stats().huge_pages, 1U);
  EXPECT_EQ(recompress({.threshold_bytes = 2500}), 1U);  // page 10: the rest is packed to less
  EXPECT_EQ(recompress({.threshold_bytes = 500}), 0U);   // no result lands below it
  EXPECT_FALSE(state(25).incompressible);
  EXPECT_EQ(recompress({.pages = PageClass::idle}), 0U);  // an attempt counts as a use
  EXPECT_GE(device_->mark_idle(0).value(), 20U);
  EXPECT_GE(recompress({.pages = PageClass::idle}), 20U);
}

TEST_F(Recompress, OneCodecOnlyWhereItIsNamed) {
  put(0, hex_page(random_));
  EXPECT_EQ(recompress({.priority = 1}), 1U);
  EXPECT_EQ(recompress({.priority = 1}), 0U);
  put(1, hex_page(random_));
  EXPECT_EQ(recompress({.priority = 3}), 2U);
  EXPECT_EQ(recompress({.priority = 1}), 0U);
  EXPECT_EQ(refusal({.priority = 2}), Status::invalid_argument);
  EXPECT_EQ(refusal({.priority = 4}), Status::invalid_argument);
  EXPECT_EQ(refusal({.threshold_bytes = 4096}), Status::invalid_argument);
}

TEST_F(Recompress, AnOverwriteMakesAFreshPage) {
  put(0, test::make_page(random_, test::PageKind::incompressible));
  recompress();
  EXPECT_TRUE(state(0).incompressible);
  ASSERT_EQ(device_->write(512, test::make_page(random_, test::PageKind::text)), Status::ok);
  stored_.clear();
  EXPECT_FALSE(state(0).incompressible);
  put(1, hex_page(random_));
  recompress();
  put(1, hex_page(random_));
  EXPECT_FALSE(state(1).recompressed);
  EXPECT_TRUE(state(1).huge);
}

TEST_F(Recompress, IdleIsWhatNobodyUsedForSoLong) {
  for (std::uint64_t page = 0; page < 4; ++page) put(page, hex_page(random_));
  put(4, test::make_page(random_, test::PageKind::same_word));
  paged_->age_clock().advance(100);
  get(1);
  put(2, hex_page(random_));
  EXPECT_EQ(state(0).age_seconds / 10, 10U);
  EXPECT_LT(state(1).age_seconds, 50U);
  EXPECT_EQ(device_->mark_idle(200).value(), 0U);
  EXPECT_EQ(device_->mark_idle(50).value(), 2U);
  EXPECT_TRUE(state(0).idle);
  EXPECT_FALSE(state(1).idle);
  EXPECT_FALSE(state(2).idle);
  EXPECT_TRUE(state(3).idle);
  EXPECT_EQ(device_->mark_idle(0).value(), 2U);
  EXPECT_FALSE(state(4).idle);
  get(0);
  EXPECT_FALSE(state(0).idle);
  ASSERT_EQ(device_->discard(kPageBytes, kPageBytes), Status::ok);
  stored_.erase(stored_.begin(), stored_.end());
  PageState out;
  ASSERT_EQ(device_->page_states(1, {&out, 1}), 1U);
  EXPECT_EQ(out.page, 2U);
}

TEST_F(Recompress, AgesSurviveWeeks) {
  put(0, hex_page(random_));
  for (int i = 0; i < 24 * 14 / 4; ++i) {
    paged_->age_clock().advance(4 * 3600);
    paged_->sweep_ages();
  }
  const std::uint64_t weeks = std::uint64_t{14} * 24 * 3600;
  EXPECT_NEAR(static_cast<double>(state(0).age_seconds), static_cast<double>(weeks), 300);
  EXPECT_EQ(device_->mark_idle(weeks + 3600).value(), 0U);
  EXPECT_EQ(device_->mark_idle(weeks - 3600).value(), 1U);
}

TEST_F(Recompress, RefusedWithoutASecondCodec) {
  make({.size_bytes = kPages * kPageBytes});
  EXPECT_EQ(refusal({}), Status::not_supported);
  make({.type = DeviceType::ram, .size_bytes = kPages * kPageBytes});
  EXPECT_EQ(refusal({}), Status::not_supported);
  EXPECT_FALSE(device_->mark_idle(0));
}

// Each priority packs and unpacks with the dictionary of its own; the other's would give wrong
// pages.
TEST_F(Recompress, EveryCodecHasItsOwnDictionary) {
  const auto shared = [this] {
    const test::Page page = hex_page(random_);
    return std::make_shared<const std::vector<std::byte>>(page.begin(), page.end());
  };
  const auto first = shared();
  const auto second = shared();
  DeviceOptions options{.size_bytes = kPages * kPageBytes, .params = {.dictionary = first}};
  options.recompress_codecs[1] = CodecChoice{"zstd", {.level = 1, .dictionary = second}};
  make(options);
  // One half of each page lz4 finds in its dictionary, the other one zstd in its own.
  for (std::uint64_t i = 0; i < 16; ++i) {
    test::Page page;
    std::copy(first->begin(), first->end(), page.begin());
    std::copy_n(second->begin(), kPageBytes / 2, page.begin() + kPageBytes / 2);
    page[0] = static_cast<std::byte>(i);
    put(i, page);
  }
  const std::uint64_t packed = device_->stats().compr_data_size;
  EXPECT_LT(packed, 16 * kPageBytes * 3 / 4);
  EXPECT_EQ(recompress(), 16U);
  EXPECT_LT(device_->stats().compr_data_size, packed * 3 / 4);
}

TEST_F(Recompress, CodecsAreCheckedAtTheStart) {
  const auto dictionary = std::make_shared<const std::vector<std::byte>>(100);
  DeviceOptions options{.size_bytes = kPageBytes};
  options.recompress_codecs[1] = CodecChoice{"nosuch", {}};
  EXPECT_FALSE(create_device(options));
  options.recompress_codecs[1] = CodecChoice{"zstd", {.level = 99}};
  EXPECT_FALSE(create_device(options));
  options.recompress_codecs[1] = CodecChoice{"deflate", {.dictionary = dictionary}};
  EXPECT_EQ(create_device(options).error().status, Status::not_supported);
}

}  // namespace
}  // namespace uzram
