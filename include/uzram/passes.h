// Passes over a device's pages: what is done to pages that are already stored.
//
// What: the options and results of marking idle pages, of recompression, and of listing what
//   pages are; named and meant as the kernel's zram has them (admin-guide/blockdev/zram.rst).
// Units: bytes, pages, seconds. Ownership, threading: values. Errors: as the calls of Device say.
#ifndef UZRAM_PASSES_H_
#define UZRAM_PASSES_H_

#include <cstdint>

namespace uzram {

inline constexpr unsigned kRecompressPriorities = 3;  // 1 .. 3; 0 is the device's own codec

// Of the stored pages that are not same-filled.
enum class PageClass : std::uint8_t { all, idle, huge, huge_idle };

struct RecompressOptions {
  PageClass pages = PageClass::all;
  // Pages packed to less are left alone, and a result that isn't below it is not kept. 0: none.
  std::uint32_t threshold_bytes = 0;
  std::uint64_t pages_max = ~std::uint64_t{0};  // packed anew at most so many
  unsigned priority = 0;                        // 1 .. 3: only that codec; 0: each in turn
};

struct PageState {
  std::uint64_t page = 0;         // its index
  std::uint64_t age_seconds = 0;  // since it was last read or written; of same-filled ones, written
  bool same = false;
  bool huge = false;
  bool idle = false;
  bool recompressed = false;
  bool incompressible = false;  // by any codec of the device
};

}  // namespace uzram

#endif  // UZRAM_PASSES_H_
