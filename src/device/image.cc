#include "device/image.h"

#include <algorithm>
#include <cstring>

namespace uzram::device {
namespace {

constexpr std::uint64_t kImageBytesMax = std::uint64_t{8} << pool::kObjectRefBits;
constexpr std::uint64_t kLeavesMax = std::uint64_t{1} << 20;   // 2 TiB of slots: 1 PiB of device
constexpr std::uint64_t kRegionsMax = std::uint64_t{1} << 21;  // 4 TiB of pool
constexpr std::uint64_t kFillsMax = std::uint64_t{1} << 33;
// What a device may grow to, at least and as a multiple of its first size. For 16 TiB that is
// 32 GiB of address space for slots, and for the rest some times the machine's memory.
constexpr std::uint64_t kGrowthBytes = std::uint64_t{16} << 40;
constexpr std::uint64_t kGrowthFactor = 16;
static_assert(kLeavesMax * kLeafBytes + kRegionsMax * pool::kRegionBytes < kImageBytesMax);

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::uint64_t room_to_grow(std::uint64_t device_bytes) {
  const std::uint64_t multiple = device_bytes > kDeviceBytesMax / kGrowthFactor
                                     ? kDeviceBytesMax
                                     : device_bytes * kGrowthFactor;
  return std::max(multiple, kGrowthBytes);
}

}  // namespace

Result<void> check_size(std::uint64_t device_bytes) {
  if (device_bytes != 0 && device_bytes <= kDeviceBytesMax) return {};
  return fail(Status::invalid_argument, "size " + std::to_string(device_bytes) +
                                            ": not within 1 .. " + std::to_string(kDeviceBytesMax));
}

ImageLayout ImageLayout::of(std::uint64_t device_bytes_max, std::uint64_t memory_bytes) noexcept {
  const std::uint64_t pages =
      device_bytes_max / kPageBytes + (device_bytes_max % kPageBytes != 0 ? 1 : 0);
  ImageLayout layout;
  layout.directory_entries = (pages + kLeafSlots - 1) / kLeafSlots;
  layout.leaf_count = std::min(layout.directory_entries, kLeavesMax);
  layout.fill_count = std::min({pages, memory_bytes / 8, kFillsMax});
  // A quarter above the raw size: sparse spans, and the old beside the new of pages being replaced.
  const std::uint64_t most = pages < (std::uint64_t{1} << 40)
                                 ? pages * (kPageBytes + kPageBytes / 4)
                                 : std::uint64_t{1} << 52;
  const std::uint64_t wanted =
      std::min(most, 2 * memory_bytes) / pool::kRegionBytes + 2 * pool::kClassCount;
  layout.region_count = static_cast<std::uint32_t>(std::min(wanted, kRegionsMax));

  const std::uint64_t unit = base::kHugePageBytes;
  layout.directory_offset = kPageBytes;
  layout.leaves_offset = round_up(layout.directory_offset + layout.directory_entries * 4, unit);
  layout.fills_offset = layout.leaves_offset + layout.leaf_count * kLeafBytes;
  layout.raw_headers_offset = round_up(layout.fills_offset + layout.fill_count * 8, unit);
  layout.arena_offset =
      round_up(layout.raw_headers_offset + pool::Pool::raw_header_bytes(layout.region_count), unit);
  layout.image_bytes =
      layout.arena_offset + std::uint64_t{layout.region_count} * pool::kRegionBytes;
  return layout;
}

Result<Image> Image::create(std::uint64_t device_bytes) {
  Image image;
  const std::uint64_t machine = base::physical_memory();
  image.layout_ = ImageLayout::of(room_to_grow(device_bytes), machine);
  auto memory = base::MemoryMap::reserve(image.layout_.image_bytes);
  if (!memory) {  // a limit on address space, or an overcommit that counts all of it
    image.layout_ = ImageLayout::of(device_bytes, machine);
    memory = base::MemoryMap::reserve(image.layout_.image_bytes);
  }
  if (!memory) return tl::unexpected(memory.error());
  image.memory_ = std::move(*memory);
  ImageHeader header{{'u', 'z', 'r', 'a', 'm', 'i', 'm', 'g'},
                     kImageVersion,
                     kPageBytes,
                     device_bytes,
                     image.layout_};
  std::memcpy(image.memory_.data(), &header, sizeof header);
  return image;
}

}  // namespace uzram::device
