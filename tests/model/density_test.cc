// What the pool costs beside the bytes that it keeps: after a fill, under overwriting with data
// that changes its compressibility, at rest, and after everything was discarded.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kSize = std::uint64_t{256} << 20;
constexpr std::uint64_t kPages = kSize / kPageBytes;

double ratio(const Device& device) {
  const Stats stats = device.stats();
  return static_cast<double>(stats.mem_used_total) / static_cast<double>(stats.compr_data_size);
}

// About `noise` packed bytes.
test::Page noisy_page(std::mt19937_64& random, std::size_t noise) {
  test::Page page;
  test::fill_random(random, page.data(), noise);
  for (std::size_t i = noise; i < page.size(); ++i) {
    page[i] = static_cast<std::byte>("uzram keeps pages "[i % 18]);
  }
  return page;
}

std::unique_ptr<Device> make_device() {
  return create_device({.size_bytes = kSize}).value();
}

std::uint64_t rss_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

// Waits, as long as it takes, for what the device does by itself.
template <typename Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Density, AfterAFillOfPagesThatHalve) {
  auto device = make_device();
  std::mt19937_64 random(1);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const std::size_t noise = 1900 + random() % 240;
    ASSERT_EQ(device->write(page * kPageBytes, noisy_page(random, noise)), Status::ok);
  }
  std::cout << "filled with halves: " << ratio(*device) << std::endl;
  EXPECT_LE(ratio(*device), 1.03);
}

TEST(Density, AfterAFillOfIncompressiblePages) {
  auto device = make_device();
  std::mt19937_64 random(2);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const auto data = test::make_page(random, test::PageKind::incompressible);
    ASSERT_EQ(device->write(page * kPageBytes, data), Status::ok);
  }
  std::cout << "filled with noise: " << ratio(*device) << std::endl;
  EXPECT_LE(ratio(*device), 1.03);
  EXPECT_EQ(device->stats().huge_pages, kPages);
}

TEST(Density, MetadataStaysBelowEighteenBytesAPage) {
  auto device = make_device();
  std::mt19937_64 random(3);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const auto data = test::make_page(random, test::PageKind::incompressible);
    ASSERT_EQ(device->write(page * kPageBytes, data), Status::ok);
  }
  // Slots and raw pages' headers, and the descriptors of spans (24 bytes for 32 pages) and regions.
  const double per_page = static_cast<double>(device->stats().metadata_bytes) / kPages + 24.0 / 32;
  std::cout << "metadata bytes per raw page: " << per_page << std::endl;
  EXPECT_LE(per_page, 18.0);
}

// Rounds of random overwriting; each makes data of another compressibility.
void overwrite(std::size_t (*noise_of)(std::mt19937_64&, int round)) {
  auto device = make_device();
  std::mt19937_64 random(4);
  for (std::uint64_t page = 0; page < kPages; ++page) {
    ASSERT_EQ(device->write(page * kPageBytes, noisy_page(random, noise_of(random, 0))),
              Status::ok);
  }
  double worst = 0;
  for (int round = 1; round <= 3; ++round) {
    for (std::uint64_t i = 0; i < kPages; ++i) {
      const std::uint64_t page = random() % kPages;
      ASSERT_EQ(device->write(page * kPageBytes, noisy_page(random, noise_of(random, round))),
                Status::ok);
      if (i % 256 == 0) worst = std::max(worst, ratio(*device));
    }
    std::cout << "round " << round << ": now " << ratio(*device) << ", worst " << worst
              << std::endl;
  }
  EXPECT_LE(worst, 1.25);
  wait_for([&] { return ratio(*device) <= 1.10; });
  std::cout << "at rest: " << ratio(*device) << ", moved " << device->stats().pages_compacted
            << std::endl;
  ASSERT_EQ(device->discard(0, kSize), Status::ok);
  wait_for([&] { return device->stats().mem_used_total == 0; });
  EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device).check(), "");
}

TEST(Density, OverwrittenWithPagesOfAllSizes) {
  overwrite([](std::mt19937_64& random, int) -> std::size_t { return 200 + random() % 3800; });
}

TEST(Density, OverwrittenWithPagesOfAnotherSizeEachRound) {
  overwrite([](std::mt19937_64& random, int round) -> std::size_t {
    constexpr std::size_t kBase[] = {1900, 2900, 1200, 2300};
    return kBase[round] + random() % 200;
  });
}

TEST(Density, DiscardingEverythingGivesTheMemoryBack) {
  auto device = make_device();
  std::mt19937_64 random(5);
  const std::uint64_t before = rss_bytes();
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(device->write(page * kPageBytes, noisy_page(random, 2000)), Status::ok);
    }
    ASSERT_EQ(device->discard(0, kSize), Status::ok);
    wait_for([&] {
      const Stats stats = device->stats();
      return stats.mem_used_total == 0 && stats.metadata_bytes == 0 &&
             rss_bytes() < before * 11 / 10;
    });
  }
}

}  // namespace
}  // namespace uzram
