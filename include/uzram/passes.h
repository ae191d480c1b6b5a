// Passes over a device's pages: what is done to pages that are already stored.
//
// What: the options and results of marking idle pages, of recompression, of write-back, and of
//   listing what pages are; named and meant as the kernel's zram has them
//   (admin-guide/blockdev/zram.rst).
// Units: bytes, pages, seconds. Ownership, threading: values. Errors: as the calls of Device say.
#ifndef UZRAM_PASSES_H_
#define UZRAM_PASSES_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace uzram {

inline constexpr unsigned kRecompressPriorities = 3;  // 1 .. 3; 0 is the device's own codec

// Of the stored pages that are in memory and not same-filled. Incompressible: by any codec of the
// device, as recompression found out.
enum class PageClass : std::uint8_t { all, idle, huge, huge_idle, incompressible };

struct RecompressOptions {
  PageClass pages = PageClass::all;
  // Pages packed to less are left alone, and a result that isn't below it is not kept. 0: none.
  std::uint32_t threshold_bytes = 0;
  std::uint64_t pages_max = ~std::uint64_t{0};  // packed anew at most so many
  unsigned priority = 0;                        // 1 .. 3: only that codec; 0: each in turn
};

struct PageRange {
  std::uint64_t first = 0, last = 0;  // page indexes, both included
};

struct WriteBackOptions {
  PageClass pages = PageClass::all;
  std::vector<PageRange> ranges = {};  // of these only; none: of the whole device
};

// How much write-back may write, and how fast. The budget shrinks with every block that is written.
struct WriteBackLimits {
  bool limited = false;             // whether the budget counts
  std::uint64_t budget_blocks = 0;  // of 4 KiB, that may still be written
  std::uint32_t batch_size = 32;    // writes in flight at the same time, from 1
};

// What isn't given stays as it is.
struct WriteBackLimitsChange {
  std::optional<bool> limited = {};
  std::optional<std::uint64_t> budget_blocks = {};
  std::optional<std::uint32_t> batch_size = {};

  void apply(WriteBackLimits& limits) const {
    limits.limited = limited.value_or(limits.limited);
    limits.budget_blocks = budget_blocks.value_or(limits.budget_blocks);
    limits.batch_size = batch_size.value_or(limits.batch_size);
  }
};

struct PageState {
  std::uint64_t page = 0;         // its index
  std::uint64_t age_seconds = 0;  // since it was last read or written; of same-filled ones, written
  bool same = false;
  bool backed = false;  // on the backing store
  bool huge = false;
  bool idle = false;
  bool recompressed = false;
  bool incompressible = false;  // by any codec of the device
};

}  // namespace uzram

#endif  // UZRAM_PASSES_H_
