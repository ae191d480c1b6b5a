// Another size: what a device gains reads zero, what it would lose must be zero.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kPages = 64;
constexpr std::uint64_t kSize = kPages * kPageBytes;

class Resize : public testing::TestWithParam<DeviceType> {
 protected:
  Resize() { make(kSize); }

  void make(std::uint64_t size_bytes) {
    device_ = create_device({.type = GetParam(), .size_bytes = size_bytes}).value();
  }
  // Empty where it was done.
  Error resize(std::uint64_t size_bytes) {
    const auto done = device_->resize(size_bytes);
    EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device_).check(), "");
    return done ? Error{Status::ok, ""} : done.error();
  }
  Status write(std::uint64_t offset, std::uint64_t length, char with) {
    const std::vector<std::byte> data(length, static_cast<std::byte>(with));
    return device_->write(offset, data);
  }
  // What all bytes of the range are; '?' where they differ, '!' where they can't be read.
  char read(std::uint64_t offset, std::uint64_t length) {
    std::vector<std::byte> data(length, std::byte{'e'});
    if (device_->read(offset, data) != Status::ok) return '!';
    for (const std::byte byte : data) {
      if (byte != data[0]) return '?';
    }
    return static_cast<char>(data[0]);
  }

  std::unique_ptr<Device> device_;
};

TEST_P(Resize, WhatALargerDeviceGainsReadsZeroAndIsStored) {
  ASSERT_EQ(write(0, kSize, 'a'), Status::ok);
  EXPECT_EQ(write(kSize, 1, 'b'), Status::out_of_range);
  ASSERT_EQ(resize(2 * kSize).message, "");
  EXPECT_EQ(device_->size_bytes(), 2 * kSize);
  EXPECT_EQ(device_->options().size_bytes, kSize);
  EXPECT_EQ(read(0, kSize), 'a');
  EXPECT_EQ(read(kSize, kSize), 0);
  EXPECT_EQ(write(2 * kSize - 1, 1, 'b'), Status::ok);
  EXPECT_EQ(read(2 * kSize - 1, 1), 'b');
  EXPECT_EQ(write(2 * kSize, 1, 'b'), Status::out_of_range);
  std::array<Extent, 4> runs;
  EXPECT_EQ(device_->extents(0, 2 * kSize, runs), 3U);
  EXPECT_EQ(device_->extents(0, 2 * kSize + 1, runs), 0U);
}

TEST_P(Resize, GrowsToManyTimesItsSizeAndServesTheEnd) {
  const std::uint64_t large = std::uint64_t{1} << 40;
  ASSERT_EQ(resize(large).message, "");
  EXPECT_EQ(write(large - kPageBytes, kPageBytes, 'z'), Status::ok);
  EXPECT_EQ(write(large / 2 + 17, 3 * kPageBytes, 'm'), Status::ok);
  EXPECT_EQ(read(large - kPageBytes, kPageBytes), 'z');
  EXPECT_EQ(read(large / 2 + 17, 3 * kPageBytes), 'm');
  std::vector<PageState> states(16);
  EXPECT_EQ(device_->page_states(0, states), 5U);
  EXPECT_EQ(device_->discard(0, large), Status::ok);
  EXPECT_EQ(resize(kSize).message, "");
}

TEST_P(Resize, ASmallerDeviceRefusesWhatLiesPastItsEnd) {
  ASSERT_EQ(write(0, kSize / 2, 'a'), Status::ok);
  ASSERT_EQ(resize(kSize / 2).message, "");
  EXPECT_EQ(device_->size_bytes(), kSize / 2);
  EXPECT_EQ(read(0, kSize / 2), 'a');
  EXPECT_EQ(read(kSize / 2, 1), '!');
  EXPECT_EQ(write(kSize / 2 - 1, 2, 'b'), Status::out_of_range);
  EXPECT_EQ(device_->discard(kSize / 2, kPageBytes), Status::out_of_range);
  EXPECT_EQ(read(kSize / 2 - 1, 1), 'a');
}

TEST_P(Resize, IsRefusedAndChangesNothingWhileTheCutPartHoldsData) {
  ASSERT_EQ(write(0, kSize, 'a'), Status::ok);
  ASSERT_EQ(device_->discard(40 * kPageBytes, 10 * kPageBytes), Status::ok);
  const Error refused = resize(41 * kPageBytes);
  EXPECT_EQ(refused.status, Status::busy);
  EXPECT_NE(refused.message.find("page 50 "), std::string::npos) << refused.message;
  EXPECT_EQ(device_->size_bytes(), kSize);
  EXPECT_EQ(read(50 * kPageBytes, 14 * kPageBytes), 'a');
  EXPECT_EQ(write(kSize - 1, 1, 'a'), Status::ok);
  ASSERT_EQ(device_->discard(50 * kPageBytes, 14 * kPageBytes), Status::ok);
  EXPECT_EQ(resize(41 * kPageBytes).message, "");
}

TEST_P(Resize, PagesKeptAsZeroesAreDropped) {
  ASSERT_EQ(device_->write_zeroes(0, kSize, true), Status::ok);
  ASSERT_EQ(device_->stats().orig_data_size, kSize);
  ASSERT_EQ(resize(kSize / 2).message, "");
  EXPECT_EQ(device_->stats().orig_data_size, kSize / 2);
  ASSERT_EQ(resize(kSize).message, "");
  ASSERT_EQ(write(kSize / 2, kSize / 2, 0), Status::ok);
  ASSERT_EQ(resize(kSize / 2).message, "");
  ASSERT_EQ(resize(kSize).message, "");
  EXPECT_EQ(device_->stats().orig_data_size, kSize / 2);
  EXPECT_EQ(read(0, kSize), 0);
}

TEST_P(Resize, AShortLastPageIsCutToTheByte) {
  const std::uint64_t cut = 10 * kPageBytes + 100;
  ASSERT_EQ(write(10 * kPageBytes, 101, 'a'), Status::ok);
  const Error refused = resize(cut);
  EXPECT_EQ(refused.status, Status::busy);
  EXPECT_NE(refused.message.find("page 10 "), std::string::npos) << refused.message;
  EXPECT_EQ(read(10 * kPageBytes, 101), 'a');
  ASSERT_EQ(device_->discard(cut, 1), Status::ok);
  ASSERT_EQ(resize(cut).message, "");
  EXPECT_EQ(read(10 * kPageBytes, 100), 'a');
  EXPECT_EQ(write(cut, 1, 'b'), Status::out_of_range);
  EXPECT_EQ(write(cut - 1, 1, 'b'), Status::ok);

  ASSERT_EQ(resize(cut + 50).message, "");
  EXPECT_EQ(read(cut, 50), 0);
  ASSERT_EQ(resize(kSize).message, "");
  EXPECT_EQ(read(cut - 1, 1), 'b');
  EXPECT_EQ(read(cut, kSize - cut), 0);
}

TEST_P(Resize, ADiscardToAShortEndLeavesNothingThatCouldComeBack) {
  make(kPageBytes + 100);
  ASSERT_EQ(write(0, kPageBytes + 100, 'a'), Status::ok);
  ASSERT_EQ(resize(2 * kPageBytes).message, "");
  EXPECT_EQ(read(kPageBytes, 100), 'a');
  EXPECT_EQ(read(kPageBytes + 100, kPageBytes - 100), 0);
  ASSERT_EQ(write(kPageBytes, kPageBytes, 'b'), Status::ok);
  ASSERT_EQ(device_->discard(kPageBytes + 7, kPageBytes - 7), Status::ok);
  ASSERT_EQ(resize(kPageBytes + 7).message, "");
  ASSERT_EQ(device_->discard(kPageBytes, 7), Status::ok);
  ASSERT_EQ(resize(kSize).message, "");
  EXPECT_EQ(read(kPageBytes, kSize - kPageBytes), 0);
}

TEST_P(Resize, SizesThatNoDeviceCanHaveAreRefused) {
  EXPECT_EQ(resize(0).status, Status::invalid_argument);
  EXPECT_EQ(resize(kDeviceBytesMax + 1).status, Status::invalid_argument);
  const Error large = resize(kDeviceBytesMax);
  EXPECT_EQ(large.status, Status::no_space);
  EXPECT_NE(large.message.find("17592186044416"), std::string::npos) << large.message;
  EXPECT_EQ(resize(kSize).message, "");
  EXPECT_EQ(device_->size_bytes(), kSize);
}

TEST_P(Resize, OutlivesAReset) {
  ASSERT_EQ(resize(2 * kSize).message, "");
  ASSERT_EQ(write(kSize, kPageBytes, 'a'), Status::ok);
  device_->reset();
  EXPECT_EQ(device_->size_bytes(), 2 * kSize);
  EXPECT_EQ(read(0, 2 * kSize), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, Resize, testing::Values(DeviceType::zram, DeviceType::ram),
                         [](const auto& param) {
                           return param.param == DeviceType::ram ? "ram" : "zram";
                         });

std::uint64_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// Where the system limits address space, a device is made all the same, and can't grow.
TEST(ResizeRoom, IsGivenUpWhereAddressSpaceIsLimited) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
  GTEST_SKIP() << "a sanitizer's shadow memory takes more than any limit leaves";
#endif
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = address_space_bytes() + (std::uint64_t{4} << 30);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  auto device = create_device({.size_bytes = std::uint64_t{1} << 30});
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_TRUE((*device)->resize(std::uint64_t{512} << 20));
  EXPECT_TRUE((*device)->resize(std::uint64_t{1} << 30));
  const auto larger = (*device)->resize((std::uint64_t{1} << 30) + 1);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().status, Status::no_space);
}

}  // namespace
}  // namespace uzram
