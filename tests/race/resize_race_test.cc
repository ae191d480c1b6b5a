// A device that grows and shrinks under requests at its edge: what was acknowledged stays, what
// comes back reads zero, and nothing is ever stored past the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "device/paged_device.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kEdge = 1024;  // page
constexpr std::uint64_t kAround = 8;   // pages that come and go
constexpr std::uint64_t kThreads = 3;
constexpr std::size_t kTail = 512;  // of a page that is cut in two

class ResizeRace : public testing::TestWithParam<DeviceType> {
 protected:
  ResizeRace()
      : device_(create_device({.type = GetParam(), .size_bytes = (kEdge + kAround) * kPageBytes})
                    .value()) {}

  // Data keeps the device from being cut before it ends, so that only a page whose rest is zero may
  // be out of reach.
  static bool may_be_cut(const test::Page& page) {
    return std::all_of(page.begin() + kTail, page.end(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  }

  // One thread's pages.
  void use_pages(std::uint64_t t, std::atomic<std::uint64_t>& wrong,
                 std::atomic<std::uint64_t>& refused) {
    std::mt19937_64 random(t);
    std::array<test::Page, kAround> held{};
    const test::Page zeroes{};
    for (int i = 0; i < 20000 || refused.load() < 100; ++i) {
      const std::uint64_t n = random() % kAround;
      if (n % kThreads != t) continue;
      const std::uint64_t at = (kEdge + n) * kPageBytes;
      const auto expect = [&](Status status) {
        if (status == Status::out_of_range && may_be_cut(held[n])) {
          ++refused;
        } else if (status != Status::ok) {
          ++wrong;
        }
        return status == Status::ok;
      };
      test::Page page = test::make_page(random, test::PageKind::half);
      switch (random() % 5) {
        case 0:
          if (expect(device_->write(at, page))) held[n] = page;
          break;
        case 1: {
          const std::size_t from = random() % 3000, length = 1 + random() % 1000;
          if (expect(device_->write(at + from, {page.data() + from, length}))) {
            std::copy_n(page.begin() + from, length, held[n].begin() + from);
          }
          break;
        }
        case 2:
          if (expect(device_->write_zeroes(at, kPageBytes, random() % 2 == 0))) held[n] = zeroes;
          break;
        default:
          if (expect(device_->discard(at, kPageBytes))) held[n] = zeroes;
          break;
      }
      const Status status = device_->read(at, page);
      const bool cut = status == Status::out_of_range && may_be_cut(held[n]);
      if (!cut && (status != Status::ok || page != held[n])) ++wrong;
    }
  }

  std::unique_ptr<Device> device_;
};

TEST_P(ResizeRace, RequestsAtTheEdge) {
  std::atomic<std::uint64_t> running{kThreads + 1}, wrong{0}, refused{0}, shrunk{0}, kept{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      use_pages(t, wrong, refused);
      --running;
    });
  }
  // Far from the edge no request may notice.
  threads.emplace_back([&] {
    std::mt19937_64 random(99);
    std::array<Extent, 4> runs;
    for (int i = 0; i < 10000; ++i) {
      const auto page = test::make_page(random, test::PageKind::half);
      const std::uint64_t at = random() % kEdge * kPageBytes;
      test::Page now;
      if (device_->write(at, page) != Status::ok || device_->read(at, now) != Status::ok ||
          now != page || device_->extents(at, kPageBytes, runs) == 0) {
        ++wrong;
      }
    }
    --running;
  });
  threads.emplace_back([&] {
    std::mt19937_64 random(7);
    std::vector<PageState> states(64);
    while (running.load() > 0) {
      const std::uint64_t pages = kEdge + random() % (kAround + 1);
      const std::uint64_t tail = pages < kEdge + kAround && random() % 2 == 0 ? kTail : 0;
      const auto done = device_->resize(pages * kPageBytes + tail);
      if (!done && done.error().status != Status::busy) ++wrong;
      ++(done ? shrunk : kept);
      static_cast<void>(device_->page_states(kEdge, states));
      if (random() % 16 == 0) device_->compact();
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(shrunk.load(), 0U);
  EXPECT_GT(kept.load(), 0U);
  EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device_).check(), "");
}

INSTANTIATE_TEST_SUITE_P(Types, ResizeRace, testing::Values(DeviceType::zram, DeviceType::ram),
                         [](const auto& param) {
                           return param.param == DeviceType::ram ? "ram" : "zram";
                         });

}  // namespace
}  // namespace uzram
