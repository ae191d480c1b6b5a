#include "uzram/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kSize = std::uint64_t{16} << 20;

void expect_sound(Device& device) {
  EXPECT_EQ(dynamic_cast<device::PagedDevice&>(device).check(), "");
}

std::string refusal(const DeviceOptions& options) {
  const auto device = create_device(options);
  return device ? "" : device.error().message;
}

TEST(CreateDevice, SaysWhatIsWrong) {
  EXPECT_NE(refusal({.size_bytes = 0}).find("size 0"), std::string::npos);
  EXPECT_NE(refusal({.size_bytes = kDeviceBytesMax + 1}).find("9223372036854775807"),
            std::string::npos);
  const std::string codec = refusal({.size_bytes = kSize, .codec = "lz5"});
  EXPECT_NE(codec.find("'lz5'"), std::string::npos);
  EXPECT_NE(codec.find("lz4"), std::string::npos);
  EXPECT_NE(codec.find("zstd"), std::string::npos);
  EXPECT_NE(refusal({.size_bytes = kSize, .codec = "zstd", .params = {.level = 1000}}).find("1000"),
            std::string::npos);
}

// Who asks for it by another name sees the codec that serves.
TEST(CreateDevice, NamesItsCodec) {
  const auto device = create_device({.size_bytes = kSize, .codec = "lzo-rle"});
  if (!device) GTEST_SKIP() << "this build has no lzo";
  EXPECT_EQ((*device)->options().codec, "lzo");
}

class EachType : public testing::TestWithParam<DeviceType> {
 protected:
  EachType()
      : device_(create_device({.type = GetParam(), .size_bytes = kSize}).value()), random_(5) {}
  std::unique_ptr<Device> device_;
  std::mt19937_64 random_;
};

INSTANTIATE_TEST_SUITE_P(All, EachType, testing::Values(DeviceType::zram, DeviceType::ram),
                         [](const auto& param) {
                           return param.param == DeviceType::zram ? "zram" : "ram";
                         });

TEST_P(EachType, RangesThatLeaveTheDeviceAreRefusedWithoutOverflow) {
  std::array<std::byte, 16> bytes{};
  for (const std::uint64_t offset :
       {kSize - 15, kSize, kSize + 1, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    EXPECT_EQ(device_->read(offset, bytes), Status::out_of_range);
    EXPECT_EQ(device_->write(offset, bytes), Status::out_of_range);
    EXPECT_EQ(device_->discard(offset, 16), Status::out_of_range);
    EXPECT_EQ(device_->write_zeroes(offset, ~std::uint64_t{0}), Status::out_of_range);
  }
  EXPECT_EQ(device_->stats().invalid_io, 20U);
  EXPECT_EQ(device_->discard(kSize, 0), Status::ok);
  EXPECT_EQ(device_->read(0, {}), Status::ok);
}

TEST_P(EachType, ReadOnlyRefusesEveryChange) {
  auto device = create_device({.type = GetParam(), .size_bytes = kSize, .read_only = true}).value();
  std::array<std::byte, 16> bytes{};
  EXPECT_EQ(device->write(0, bytes), Status::read_only);
  EXPECT_EQ(device->discard(0, 16), Status::read_only);
  EXPECT_EQ(device->write_zeroes(0, 16), Status::read_only);
  EXPECT_EQ(device->read(0, bytes), Status::ok);
  EXPECT_EQ(device->flush(), Status::ok);
}

// Discards and zeroes smaller than a page change what was asked and nothing else.
TEST_P(EachType, PartsOfPagesAreZeroedToTheByte) {
  std::vector<std::byte> model(4 * kPageBytes, std::byte{0xa5}), now(model.size());
  const auto zero = [&](std::uint64_t at, std::uint64_t length, bool discard) {
    ASSERT_EQ(discard ? device_->discard(at, length) : device_->write_zeroes(at, length),
              Status::ok);
    std::memset(model.data() + at, 0, length);
    ASSERT_EQ(device_->read(0, now), Status::ok);
    ASSERT_EQ(now, model);
  };
  ASSERT_EQ(device_->write(0, model), Status::ok);
  zero(1024, 512, true);
  zero(512, 512, false);
  zero(4095, 2, false);
  zero(3584, 5120, true);
  zero(16383, 1, true);
  expect_sound(*device_);
}

TEST_P(EachType, DiscardsOfSectorsAddUpToFreePages) {
  std::vector<std::byte> data(kSize / 4);
  test::fill_random(random_, data.data(), data.size());
  ASSERT_EQ(device_->write(0, data), Status::ok);
  EXPECT_EQ(device_->stats().orig_data_size, data.size());
  for (std::uint64_t at = 0; at < data.size(); at += 512) {
    ASSERT_EQ(device_->discard((at * 7) % data.size(), 512), Status::ok);
  }
  expect_sound(*device_);
  EXPECT_EQ(device_->stats().orig_data_size, 0U);
  EXPECT_EQ(device_->stats().compr_data_size, 0U);
  device_->compact();
  EXPECT_EQ(device_->stats().mem_used_total, 0U);
}

TEST_P(EachType, ExtentsTellHolesFromZeroesFromData) {
  std::vector<std::byte> data(kPageBytes, std::byte{1});
  data[17] = std::byte{2};
  ASSERT_EQ(device_->write(3 * kPageBytes, data), Status::ok);
  ASSERT_EQ(device_->write_zeroes(5 * kPageBytes, 2 * kPageBytes, true), Status::ok);
  std::array<Extent, 8> runs;
  const std::size_t count = device_->extents(100, kSize - 100, runs);
  const std::vector<Extent> expected = {{3 * kPageBytes - 100, true, true},
                                        {kPageBytes, false, false},
                                        {kPageBytes, true, true},
                                        {2 * kPageBytes, false, true},
                                        {kSize - 7 * kPageBytes, true, true}};
  EXPECT_EQ(std::vector<Extent>(runs.begin(), runs.begin() + count), expected);
  EXPECT_EQ(device_->extents(0, kSize, std::span(runs).first(2)), 2U);
  EXPECT_EQ(device_->extents(kSize, 1, runs), 0U);
  EXPECT_EQ(device_->extents(1, kSize, runs), 0U);
}

TEST_P(EachType, CountsWhatWasAsked) {
  std::array<std::byte, 1000> bytes{};
  bytes[3] = std::byte{9};
  ASSERT_EQ(device_->write(10, bytes), Status::ok);
  ASSERT_EQ(device_->read(0, bytes), Status::ok);
  ASSERT_EQ(device_->discard(0, kPageBytes), Status::ok);
  ASSERT_EQ(device_->flush(), Status::ok);
  const Stats stats = device_->stats();
  EXPECT_EQ(stats.writes, 1U);
  EXPECT_EQ(stats.write_bytes, 1000U);
  EXPECT_EQ(stats.reads, 1U);
  EXPECT_EQ(stats.read_bytes, 1000U);
  EXPECT_EQ(stats.discards, 1U);
  EXPECT_EQ(stats.discard_bytes, kPageBytes);
  EXPECT_EQ(stats.flushes, 1U);
  EXPECT_EQ(stats.notify_free, 1U);
  EXPECT_EQ(stats.orig_data_size, 0U);
}

TEST_P(EachType, ResetStartsOver) {
  std::vector<std::byte> data(kSize / 2);
  test::fill_random(random_, data.data(), data.size());
  ASSERT_EQ(device_->write(0, data), Status::ok);
  device_->reset();
  const Stats stats = device_->stats();
  EXPECT_EQ(stats.orig_data_size, 0U);
  EXPECT_EQ(stats.mem_used_total, 0U);
  EXPECT_EQ(stats.mem_used_max, 0U);
  EXPECT_EQ(stats.writes, 0U);
  std::vector<std::byte> now(data.size(), std::byte{1});
  ASSERT_EQ(device_->read(0, now), Status::ok);
  EXPECT_EQ(now, std::vector<std::byte>(data.size()));
  ASSERT_EQ(device_->write(0, data), Status::ok);
  ASSERT_EQ(device_->read(0, now), Status::ok);
  EXPECT_EQ(now, data);
  expect_sound(*device_);
}

// One repeated word is kept as a pattern, and only that: see the pages that differ in one byte.
TEST(SameFilled, EveryPatternAndEveryNearMiss) {
  auto device = create_device({.size_bytes = kSize}).value();
  const std::vector<std::uint64_t> words = {0,
                                            1,
                                            0x5a5a5a5a5a5a5a5a,
                                            0x0000000000001000,
                                            0x00007fffffffe000,
                                            0xffffffffffffffff,
                                            0x0102030401020304,
                                            0x0001000200030004};
  std::uint64_t page = 0;
  std::vector<std::pair<std::uint64_t, test::Page>> kept;
  const auto put = [&](const test::Page& data) {
    ASSERT_EQ(device->write(page * kPageBytes, data), Status::ok);
    kept.emplace_back(page++, data);
  };
  for (const std::uint64_t word : words) {
    test::Page data;
    for (std::size_t i = 0; i < data.size(); i += 8) std::memcpy(&data[i], &word, 8);
    put(data);
    EXPECT_EQ(device->stats().same_pages, page);
  }
  EXPECT_EQ(device->stats().compr_data_size, 0U);
  EXPECT_EQ(device->stats().mem_used_total, 0U);
  const std::uint64_t same = page;
  for (const std::uint64_t word : words) {
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{2048}, kPageBytes - 8, kPageBytes - 1}) {
      test::Page data;
      for (std::size_t i = 0; i < data.size(); i += 8) std::memcpy(&data[i], &word, 8);
      data[at] ^= std::byte{0x40};
      put(data);
    }
  }
  EXPECT_EQ(device->stats().same_pages, same);
  test::Page period_16;
  for (std::size_t i = 0; i < period_16.size(); ++i) period_16[i] = static_cast<std::byte>(i % 16);
  put(period_16);
  EXPECT_EQ(device->stats().same_pages, same);
  for (const auto& [at, data] : kept) {
    for (const auto& [from, length] : {std::pair<std::uint64_t, std::uint64_t>{0, 512},
                                       {512, 512},
                                       {3584, 512},
                                       {4089, 7},
                                       {3, 4090}}) {
      std::vector<std::byte> now(length);
      ASSERT_EQ(device->read(at * kPageBytes + from, now), Status::ok);
      ASSERT_EQ(std::memcmp(now.data(), data.data() + from, length), 0) << at << " + " << from;
    }
  }
  expect_sound(*device);
  ASSERT_EQ(device->discard(0, page * kPageBytes), Status::ok);
  EXPECT_EQ(device->stats().same_pages, 0U);
  expect_sound(*device);
}

// The new pattern is stored before the old one goes, on a device whose every page holds one.
TEST(SameFilled, WidePatternsReplaceEachOtherOnAFullDevice) {
  for (const std::uint64_t pages : {std::uint64_t{1}, std::uint64_t{100}}) {
    auto device = create_device({.size_bytes = pages * kPageBytes}).value();
    std::mt19937_64 random(8);
    for (int round = 0; round < 3; ++round) {
      for (std::uint64_t page = 0; page < pages; ++page) {
        const auto data = test::make_page(random, test::PageKind::same_word);
        ASSERT_EQ(device->write(page * kPageBytes, data), Status::ok);
        test::Page now;
        ASSERT_EQ(device->read(page * kPageBytes, now), Status::ok);
        ASSERT_EQ(now, data);
      }
    }
    expect_sound(*device);
  }
}

}  // namespace
}  // namespace uzram
