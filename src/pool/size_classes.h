// The sizes that the pool cuts spans into.
//
// What: class 0 keeps raw pages, 4096 bytes each, their headers in a table beside the pool (inside
// the
//   span they would waste 6 % of it); classes 1.. keep packed pages, smallest stride first, each
//   object with its 8-byte header before it. A stride is span / n, so that a span has no tail worth
//   naming, with gaps of at least 32 bytes and 1 %.
// Units: bytes; strides are multiples of 8, headers included.
// Ownership, threading: constants. Errors: none.
#ifndef UZRAM_POOL_SIZE_CLASSES_H_
#define UZRAM_POOL_SIZE_CLASSES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "uzram/device.h"

namespace uzram::pool {

inline constexpr std::uint32_t kSpanBytes = 128U << 10;
inline constexpr std::uint32_t kRegionBytes = 2U << 20;
inline constexpr std::uint32_t kSpansPerRegion = kRegionBytes / kSpanBytes;
inline constexpr std::uint32_t kChunkBytes = 8U << 10;  // what a small span is paid for in
inline constexpr std::uint32_t kChunksPerSpan = kSpanBytes / kChunkBytes;
inline constexpr std::uint32_t kHeaderBytes = 8;
// Headers of the raw pages that a region has room for.
inline constexpr std::uint32_t kRegionHeaderBytes = kRegionBytes / kPageBytes * kHeaderBytes;
static_assert(kRegionHeaderBytes == 4096);

struct SizeClass {
  std::uint32_t stride = 0;  // bytes from object to object
  std::uint32_t count = 0;   // objects in a span
  std::uint32_t first = 0;   // bytes before the first object
  // Packed classes of more than 64 objects keep their bitmap in the span's first words, which are
  // paid for in any case; the others in the span's descriptor, where it costs no room that an
  // object could use.
  constexpr std::uint32_t bitmap_words() const { return (count + 63) / 64; }
};

namespace internal {

inline constexpr std::uint32_t kCountMin =
    36;  // 3640 bytes: above it, a packed page saves too little
inline constexpr std::uint32_t kStrideMin = 48;
inline constexpr std::size_t kClassRoom = 160;

constexpr SizeClass cut(std::uint32_t count) {
  const std::uint32_t bitmap = count > 64 ? (count + 63) / 64 * 8 : 0;
  return {(kSpanBytes - bitmap) / count / 8 * 8, count, bitmap};
}

struct Table {
  std::array<SizeClass, kClassRoom> classes{};
  std::uint32_t size = 0;
};

constexpr Table make_table() {
  Table falling;
  SizeClass last = cut(kCountMin);
  falling.classes[falling.size++] = last;
  for (std::uint32_t n = kCountMin + 1;; ++n) {
    const SizeClass next = cut(n);
    if (next.stride < kStrideMin) break;
    if (cut(n + 1).stride == next.stride) continue;  // as many of a stride as go in
    const std::uint32_t gap = last.stride / 100 > 32 ? last.stride / 100 : 32;
    if (last.stride - next.stride < gap && last.count >= 64) continue;
    falling.classes[falling.size++] = next;
    last = next;
  }
  Table table;
  table.classes[table.size++] = {static_cast<std::uint32_t>(kPageBytes),
                                 kSpanBytes / static_cast<std::uint32_t>(kPageBytes), 0};
  for (std::uint32_t i = falling.size; i > 0; --i)
    table.classes[table.size++] = falling.classes[i - 1];
  return table;
}

inline constexpr Table kTable = make_table();

}  // namespace internal

using ClassIndex = std::uint8_t;

inline constexpr ClassIndex kRawClass = 0;
inline constexpr std::uint32_t kClassCount = internal::kTable.size;
static_assert(kClassCount < internal::kClassRoom && kClassCount <= 255);

constexpr const SizeClass& size_class(std::uint32_t index) {
  return internal::kTable.classes[index];
}

// The largest payload that is worth packing; what is larger is kept raw.
inline constexpr std::uint32_t kPackedBytesMax = size_class(kClassCount - 1).stride - kHeaderBytes;

namespace internal {

// Class of a payload, by its header-and-payload bytes in steps of 8.
constexpr auto make_lookup() {
  std::array<ClassIndex, (kPackedBytesMax + kHeaderBytes) / 8 + 1> lookup{};
  std::uint32_t index = 1;
  for (std::uint32_t units = 0; units < lookup.size(); ++units) {
    while (size_class(index).stride < units * 8) ++index;
    lookup[units] = static_cast<ClassIndex>(index);
  }
  return lookup;
}

inline constexpr auto kLookup = make_lookup();

}  // namespace internal

// The class of a packed page; 1 <= payload_bytes <= kPackedBytesMax.
constexpr ClassIndex class_of_packed(std::uint32_t payload_bytes) {
  return internal::kLookup[(payload_bytes + kHeaderBytes + 7) / 8];
}

}  // namespace uzram::pool

#endif  // UZRAM_POOL_SIZE_CLASSES_H_
