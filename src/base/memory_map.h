// Memory from the system: reserved at once, taken page by page.
//
// What: an anonymous private mapping that costs address space until it is touched, and the advice
// that
//   tells the kernel how to back parts of it.
// Units: bytes; `offset` and `length` of the advice calls are multiples of 4096.
// Ownership: the map owns its address range. Threading: the calls are thread-safe on disjoint
// ranges. Errors: reserving fails with no_memory; advice that the system does not grant changes
// nothing but speed.
#ifndef UZRAM_BASE_MEMORY_MAP_H_
#define UZRAM_BASE_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>

#include "uzram/result.h"

namespace uzram::base {

inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

class MemoryMap {
 public:
  // Reads zero where it was never written. Aligned to kHugePageBytes, backed by small pages unless
  // advised otherwise, kept out of core dumps.
  static Result<MemoryMap> reserve(std::uint64_t length);

  MemoryMap() = default;
  MemoryMap(MemoryMap&& other) noexcept;
  MemoryMap& operator=(MemoryMap&& other) noexcept;
  ~MemoryMap();

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return length_; }

  // Asks for huge pages, or for small ones, from the next touch on.
  bool advise_huge(std::uint64_t offset, std::uint64_t length, bool huge) const noexcept;
  // Takes the memory now, so that a later touch can't stall; false when the system has none left.
  bool populate(std::uint64_t offset, std::uint64_t length) const noexcept;
  // Gives the memory back; the range reads zero afterwards. False when the system refused (locked
  // memory, before Linux 5.18): then nothing changed.
  bool release(std::uint64_t offset, std::uint64_t length) const noexcept;
  // Bytes of the range that are in memory, from mincore(2).
  std::uint64_t resident(std::uint64_t offset, std::uint64_t length) const noexcept;

 private:
  std::byte* data_ = nullptr;
  std::uint64_t length_ = 0;
};

// RAM of the machine, in bytes.
std::uint64_t physical_memory() noexcept;
// Whether the system would back advised anonymous memory with huge pages.
bool huge_pages_enabled() noexcept;

}  // namespace uzram::base

#endif  // UZRAM_BASE_MEMORY_MAP_H_
