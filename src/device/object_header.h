// The 8 bytes that go with every stored object.
//
// What: bits 0-39 the owner's SlotId, 40-51 the size in bytes (0 means 4096), 52-55 the codec's
//   number on this device (its priority: 0 the first codec, 1-3 those of recompression), 56 no
//   codec of this device packs it smaller, 57-63 not used, 0.
// Units: bytes. Ownership, threading: a value; stored and loaded as one atomic word. Errors: none.
#ifndef UZRAM_DEVICE_OBJECT_HEADER_H_
#define UZRAM_DEVICE_OBJECT_HEADER_H_

#include <cstdint>

#include "uzram/device.h"

namespace uzram::device {

class ObjectHeader {
 public:
  constexpr explicit ObjectHeader(std::uint64_t bits) : bits_(bits) {}
  constexpr ObjectHeader(std::uint64_t owner, std::uint32_t bytes, unsigned codec = 0)
      : bits_(owner | std::uint64_t{bytes & kSizeMask} << kSizeShift |
              std::uint64_t{codec & kCodecMask} << kCodecShift) {}

  constexpr std::uint64_t owner() const { return bits_ & kOwnerMask; }
  constexpr std::uint32_t bytes() const {
    const auto bytes = static_cast<std::uint32_t>(bits_ >> kSizeShift & kSizeMask);
    return bytes == 0 ? static_cast<std::uint32_t>(kPageBytes) : bytes;
  }
  constexpr unsigned codec() const {
    return static_cast<unsigned>(bits_ >> kCodecShift) & kCodecMask;
  }
  constexpr bool incompressible() const { return (bits_ & kIncompressible) != 0; }
  constexpr ObjectHeader as_incompressible() const { return ObjectHeader(bits_ | kIncompressible); }
  constexpr std::uint64_t bits() const { return bits_; }

 private:
  static constexpr unsigned kSizeShift = 40, kCodecShift = 52;
  static constexpr unsigned kCodecMask = 0xf;
  static constexpr std::uint64_t kIncompressible = std::uint64_t{1} << 56;
  static constexpr std::uint32_t kSizeMask = 0xfff;
  static constexpr std::uint64_t kOwnerMask = (std::uint64_t{1} << kSizeShift) - 1;
  std::uint64_t bits_;
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_OBJECT_HEADER_H_
