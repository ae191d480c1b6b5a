// What happens where the system has no memory left for room that a request needs.
//
// A program of its own: its linker puts refusing_new in place of the allocator of such room.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <random>

#include "device/paged_device.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"

namespace {

std::atomic<bool> refuse{false};

}  // namespace

// The names that the linker's --wrap gives to both (ld(1)).
void* real_new(std::size_t bytes, std::align_val_t align, const std::nothrow_t& nothrow) noexcept
    asm("__real__ZnamSt11align_val_tRKSt9nothrow_t");
void* refusing_new(std::size_t bytes, std::align_val_t align,
                   const std::nothrow_t& nothrow) noexcept
    asm("__wrap__ZnamSt11align_val_tRKSt9nothrow_t");

void* refusing_new(std::size_t bytes, std::align_val_t align,
                   const std::nothrow_t& nothrow) noexcept {
  return refuse.load() ? nullptr : real_new(bytes, align, nothrow);
}

namespace uzram {
namespace {

TEST(NoMemory, AReadOfTheStoreFailsWhereThereIsNoRoomForIt) {
  DeviceOptions options{.size_bytes = 64 * kPageBytes};
  options.backing = std::make_shared<test::FakeStore>(64);
  const auto device = create_device(options).value();
  std::mt19937_64 random(1);
  const test::Page page = test::make_page(random, test::PageKind::incompressible);
  ASSERT_EQ(device->write(0, page), Status::ok);
  ASSERT_EQ(device->write_back({}).value(), 1U);
  refuse = true;
  test::Page now{};
  const std::array<std::byte, 8> part{};
  const Status read = device->read(0, now), change = device->write(8, part);
  refuse = false;
  EXPECT_EQ(read, Status::no_memory);
  EXPECT_EQ(change, Status::no_memory);
  EXPECT_EQ(device->read(0, now), Status::ok);
  EXPECT_TRUE(now == page);
  EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device).check(), "");
}

}  // namespace
}  // namespace uzram
