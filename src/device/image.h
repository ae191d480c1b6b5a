// The one contiguous memory that holds a device's slots and pool.
//
// What: where each part lies. Nothing in the image is a pointer; all places are offsets from its
// start.
//     header | directory | leaves | fill words | headers of raw pages | arena
//   Address space is reserved for all of it at once, with room for the device to grow where the
//   system grants it; memory is taken on first touch, so that an empty device of 16 TiB costs next
//   to nothing.
// Units: bytes from the start of the image. Ownership: the image owns the mapping.
// Threading: constant once made, but for the device's size. Errors: no_memory.
#ifndef UZRAM_DEVICE_IMAGE_H_
#define UZRAM_DEVICE_IMAGE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/memory_map.h"
#include "device/slot.h"
#include "pool/pool.h"
#include "uzram/device.h"

namespace uzram::device {

// A leaf is the slots of 1 GiB of device.
inline constexpr std::uint64_t kLeafSlots = std::uint64_t{1} << 18;
inline constexpr std::uint64_t kLeafBytes = kLeafSlots * sizeof(Slot);

struct ImageLayout {
  std::uint64_t directory_entries = 0;  // 4 bytes for each GiB that the device may grow to
  std::uint64_t leaf_count = 0;    // room for leaves; fewer than the directory for vast devices
  std::uint64_t fill_count = 0;    // room for fill words
  std::uint32_t region_count = 0;  // regions of the arena
  std::uint64_t directory_offset = 0, leaves_offset = 0, fills_offset = 0, raw_headers_offset = 0,
                arena_offset = 0, image_bytes = 0;

  // For a device of up to `device_bytes_max`: room for every page kept raw and then some, but not
  // for more than the machine's memory could hold.
  static ImageLayout of(std::uint64_t device_bytes_max, std::uint64_t memory_bytes) noexcept;
  // What the directory has room for.
  std::uint64_t device_bytes_max() const noexcept {
    return std::min(directory_entries * kLeafSlots * kPageBytes, kDeviceBytesMax);
  }
};

// invalid_argument outside of 1 .. kDeviceBytesMax.
Result<void> check_size(std::uint64_t device_bytes);

// At offset 0; what a later process would need to understand the rest. Written once, but for
// `device_bytes`, which is the size of now.
struct ImageHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t page_bytes;
  std::uint64_t device_bytes;
  ImageLayout layout;
};
static_assert(sizeof(ImageHeader) == 104);
inline constexpr std::uint32_t kImageVersion = 4;

class Image {
 public:
  static Result<Image> create(std::uint64_t device_bytes);

  std::uint64_t device_bytes() const noexcept {
    return device_bytes_word().load(std::memory_order_relaxed);
  }
  // At most the layout's device_bytes_max.
  void set_device_bytes(std::uint64_t bytes) const noexcept {
    device_bytes_word().store(bytes, std::memory_order_relaxed);
  }

  const ImageLayout& layout() const noexcept { return layout_; }
  const base::MemoryMap& memory() const noexcept { return memory_; }
  template <typename T>
  T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

 private:
  std::atomic<std::uint64_t>& device_bytes_word() const noexcept {
    return *at<std::atomic<std::uint64_t>>(offsetof(ImageHeader, device_bytes));
  }

  ImageLayout layout_;
  base::MemoryMap memory_;
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_IMAGE_H_
