// Devices far larger than memory: tables are taken where something is written, and nowhere else.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tests/support/pages.h"
#include "uzram/device.h"

namespace uzram {
namespace {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define UZRAM_SHADOW_MEMORY 1
#endif
#endif

std::uint64_t rss_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

class Vast : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
#ifdef UZRAM_SHADOW_MEMORY
    GTEST_SKIP() << "a sanitizer's shadow memory leaves no address space for a vast device";
#endif
  }
};

TEST_P(Vast, CostsNextToNothingWhileEmpty) {
  const std::uint64_t before = rss_bytes();
  auto device = create_device({.size_bytes = GetParam()});
  ASSERT_TRUE(device) << device.error().message;
  test::Page page;
  ASSERT_EQ((*device)->read(GetParam() - kPageBytes, page), Status::ok);
  ASSERT_EQ((*device)->discard(0, GetParam()), Status::ok);
  EXPECT_LT(rss_bytes() - before, std::uint64_t{16} << 20);
}

TEST_P(Vast, ServesItsFirstAndLastBytesAndThoseBetween) {
  auto device = create_device({.size_bytes = GetParam()}).value();
  std::mt19937_64 random(9);
  std::vector<std::pair<std::uint64_t, test::Page>> kept;
  const std::uint64_t last = GetParam() - kPageBytes;
  for (const std::uint64_t at : {std::uint64_t{0}, GetParam() / 2, GetParam() / 3 + 17, last}) {
    kept.emplace_back(at, test::make_page(random, test::PageKind::half));
    ASSERT_EQ(device->write(at, kept.back().second), Status::ok) << at;
  }
  for (const auto& [at, data] : kept) {
    test::Page now;
    ASSERT_EQ(device->read(at, now), Status::ok);
    EXPECT_EQ(now, data) << at;
  }
  std::array<Extent, 4> runs;
  ASSERT_GE(device->extents(0, GetParam(), runs), 1U);
  EXPECT_FALSE(runs[0].hole);
  std::byte one{7};
  EXPECT_EQ(device->write(GetParam() - 1, {&one, 1}), Status::ok);
  EXPECT_EQ(device->write(GetParam(), {&one, 1}), Status::out_of_range);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Vast,
                         testing::Values(std::uint64_t{16} << 40, std::uint64_t{1} << 50,
                                         kDeviceBytesMax));

}  // namespace
}  // namespace uzram
