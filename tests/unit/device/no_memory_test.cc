// What happens where the system has no memory left for room that a request needs.
//
// A program of its own, because it stands in for the allocator of such room.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>

#include "device/paged_device.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"

namespace {

std::atomic<bool> refuse{false};

}  // namespace

void* operator new[](std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  if (refuse.load()) return nullptr;
  const auto unit = static_cast<std::size_t>(align);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete[](void* at, std::align_val_t) noexcept {
  std::free(at);
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
