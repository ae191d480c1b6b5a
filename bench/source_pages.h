// The pages that a benchmark writes.
//
// What: a pool of distinct pages made before the clock starts, so that making data is never
//   measured; writers walk through it in a ring and take records of any length from any multiple of
//   their length or of a page.
// Units: bytes. Ownership: owns its memory. Threading: const after construction.
// Errors: `make` fails with one line when a file can't be used or memory is short.
#ifndef UZRAM_BENCH_SOURCE_PAGES_H_
#define UZRAM_BENCH_SOURCE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory_map.h"
#include "bench/options.h"
#include "bench/random.h"
#include "uzram/result.h"

namespace uzram::bench {

using PageOut = std::span<std::byte, kPageBytes>;

// A page that lz4 packs into 2048 bytes, 2 % more or less: runs of random bytes between runs of one
// byte that the page repeats, some thirty sequences of varying length. One long run of each would
// pack as well, but a codec copies two runs faster than any real page.
void make_half_page(Random& random, PageOut page) noexcept;
void make_random_page(Random& random, PageOut page) noexcept;

class SourcePages {
 public:
  // More than the second-level caches hold, little enough to be made in a moment.
  static constexpr std::uint64_t kPages = 4096;
  static constexpr std::uint64_t kRingBytes = kPages * kPageBytes;

  static Result<SourcePages> make(const Data& data, std::uint64_t seed);

  // `length` up to kRecordMax bytes from `position` (below kRingBytes) on, round the ring.
  const std::byte* at(std::uint64_t position) const noexcept { return map_.data() + position; }
  std::span<const std::byte, kPageBytes> page(std::uint64_t number) const noexcept {
    return std::span<const std::byte, kPageBytes>(at(number % kPages * kPageBytes), kPageBytes);
  }
  // The position after a record of `length` at `position`.
  static constexpr std::uint64_t next(std::uint64_t position, std::uint64_t length) noexcept {
    position += length;
    return position < kRingBytes ? position : position - kRingBytes;
  }

 private:
  base::MemoryMap map_;  // the ring, and its beginning once more
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_SOURCE_PAGES_H_
