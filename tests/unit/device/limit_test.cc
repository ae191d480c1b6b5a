// What a device does when its memory limit is reached.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kSize = std::uint64_t{256} << 20;
constexpr std::uint64_t kLimit = std::uint64_t{16} << 20;

class AtTheLimit : public testing::TestWithParam<DeviceType> {
 protected:
  AtTheLimit()
      : device_(create_device({.type = GetParam(), .size_bytes = kSize, .mem_limit_bytes = kLimit})
                    .value()),
        random_(11) {
    text_ = test::make_page(random_, test::PageKind::text);
  }

  test::Page noise() { return test::make_page(random_, test::PageKind::incompressible); }
  Status put(std::uint64_t page, const test::Page& data) {
    return device_->write(page * kPageBytes, data);
  }
  test::Page get(std::uint64_t page) {
    test::Page now;
    EXPECT_EQ(device_->read(page * kPageBytes, now), Status::ok);
    return now;
  }

  // Text in pages 0..99, then noise from page 100 up to the first that is refused.
  void fill() {
    for (std::uint64_t page = 0; page < 100; ++page) ASSERT_EQ(put(page, text_), Status::ok);
    for (end_ = 100;; ++end_) {
      noise_.push_back(noise());
      const Status status = put(end_, noise_.back());
      if (status == Status::ok) continue;
      ASSERT_EQ(status, Status::no_space);
      break;
    }
  }
  void expect_all_there() {
    for (std::uint64_t page = 0; page < 100; ++page) ASSERT_EQ(get(page), text_) << page;
    for (std::uint64_t page = 100; page < end_; ++page)
      ASSERT_EQ(get(page), noise_[page - 100]) << page;
    ASSERT_EQ(get(end_), test::Page{});
    EXPECT_LE(device_->stats().mem_used_max, kLimit);
    EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device_).check(), "");
  }

  std::unique_ptr<Device> device_;
  std::mt19937_64 random_;
  test::Page text_;
  std::vector<test::Page> noise_;
  std::uint64_t end_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, AtTheLimit, testing::Values(DeviceType::zram, DeviceType::ram),
                         [](const auto& param) {
                           return param.param == DeviceType::zram ? "zram" : "ram";
                         });

TEST_P(AtTheLimit, NearlyAllOfItHoldsData) {
  fill();
  EXPECT_GE((end_ - 100) * kPageBytes, kLimit * 9 / 10);
  expect_all_there();
}

TEST_P(AtTheLimit, RefusedWritesChangeNothingHoweverMany) {
  fill();
  for (int i = 0; i < 20000; ++i)
    ASSERT_EQ(put(end_ + 1 + random_() % 1000, noise()), Status::no_space);
  std::vector<std::byte> many(8 * kPageBytes);
  test::fill_random(random_, many.data(), many.size());
  ASSERT_EQ(device_->write((end_ - 4) * kPageBytes, many), Status::no_space);
  EXPECT_EQ(device_->stats().failed_writes, 20002U);
  expect_all_there();
}

TEST_P(AtTheLimit, PagesCanBeRewrittenZeroedAndFilled) {
  fill();
  for (std::uint64_t page = 100; page < end_; page += 3) {
    noise_[page - 100] = noise();
    ASSERT_EQ(put(page, noise_[page - 100]), Status::ok);
  }
  for (std::uint64_t page = 101; page < end_; page += 30) {
    noise_[page - 100] = text_;
    ASSERT_EQ(put(page, text_), Status::ok);
  }
  // Several pages at once, and a part of one.
  std::vector<std::byte> two(2 * kPageBytes);
  test::fill_random(random_, two.data(), two.size());
  ASSERT_EQ(device_->write(120 * kPageBytes, two), Status::ok);
  std::memcpy(noise_[20].data(), two.data(), kPageBytes);
  std::memcpy(noise_[21].data(), two.data() + kPageBytes, kPageBytes);
  ASSERT_EQ(device_->write(130 * kPageBytes + 512, std::span(two).first(512)), Status::ok);
  std::memcpy(noise_[30].data() + 512, two.data(), 512);
  ASSERT_EQ(device_->write_zeroes(140 * kPageBytes, 100), Status::ok);
  std::memset(noise_[40].data(), 0, 100);
  ASSERT_EQ(device_->write_zeroes(150 * kPageBytes, kPageBytes), Status::ok);
  noise_[50] = test::Page{};
  expect_all_there();
}

TEST_P(AtTheLimit, DiscardedRoomIsThereAtOnce) {
  fill();
  ASSERT_EQ(device_->discard(200 * kPageBytes, std::uint64_t{8} << 20), Status::ok);
  for (std::uint64_t i = 0; i < 1024; ++i) {
    noise_[100 + i] = noise();
    ASSERT_EQ(put(200 + i, noise_[100 + i]), Status::ok) << i;
  }
  for (std::uint64_t i = 1024; i < 2048; ++i) noise_[100 + i] = test::Page{};
  expect_all_there();
}

TEST_P(AtTheLimit, FollowsTheLimitUpAndDown) {
  fill();
  device_->set_mem_limit(kLimit * 2);
  ASSERT_EQ(put(end_, noise_.back()), Status::ok);
  device_->set_mem_limit(kLimit / 4);
  // What is paid for already may still be used; nothing more is taken. Compaction may give back.
  const std::uint64_t used = device_->stats().mem_used_total;
  std::uint64_t extra = 0;
  while (put(end_ + 1000 + extra, noise()) == Status::ok) ++extra;
  EXPECT_LT(extra, 2048U);
  EXPECT_LE(device_->stats().mem_used_total, used);
  ASSERT_EQ(get(end_), noise_.back());
  for (std::uint64_t page = 0; page < 100; ++page) ASSERT_EQ(get(page), text_);
  device_->set_mem_limit(0);
  ASSERT_EQ(put(end_ + 1000 + extra, noise()), Status::ok);
}

TEST(SameFilledAtTheLimit, TakesNoMemory) {
  auto device = create_device({.size_bytes = kSize, .mem_limit_bytes = 4096}).value();
  std::mt19937_64 random(1);
  for (std::uint64_t page = 0; page < 5000; ++page) {
    const auto data = test::make_page(random, test::PageKind::same_word);
    ASSERT_EQ(device->write(page * kPageBytes, data), Status::ok);
  }
  EXPECT_EQ(device->write(0, test::make_page(random, test::PageKind::text)), Status::no_space);
  EXPECT_EQ(device->stats().same_pages, 5000U);
  EXPECT_EQ(device->stats().mem_used_max, 0U);
}

}  // namespace
}  // namespace uzram
