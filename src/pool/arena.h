// Spans of memory, taken from the system and given back to it within an exact budget.
//
// What: the arena is a part of the image, cut into regions of 2 MiB, each cut into 16 spans. A
// region
//   is *huge* (paid for, faulted in and given back as a whole, which is the only way in which
//   memory under huge pages really goes back) or *small* (a taken span is paid for in chunks of
//   8 KiB, from its start up, as it fills, and given back as a whole). The first regions are small,
//   so that small devices stay small; so is what the budget has left below 2 MiB. Conservation:
//   used() == 2 MiB x huge regions + 8 KiB x chunks paid of small regions <= limit.
// Units: bytes; spans and regions are counted from the arena's start.
// Ownership: does not own the image. Threading: all calls from any thread; system calls are made
//   with no lock held, but for those of reset. Errors: `take` answers nothing when the budget, the
//   system or the arena has no more.
#ifndef UZRAM_POOL_ARENA_H_
#define UZRAM_POOL_ARENA_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/memory_map.h"
#include "base/mutex.h"
#include "pool/size_classes.h"

namespace uzram::pool {

using SpanIndex = std::uint32_t;
using RegionIndex = std::uint32_t;

// Where a span may come from. Compaction must not fill the region that it emptied just before, so
// an empty huge region counts as growth.
enum class Room : std::uint8_t {
  paid,           // a huge region in use
  small,          // a small region, which may be a new one while there are few
  paid_or_small,  // the first that has one
  any,            // these, the spare region, or a new region
};

struct TakenSpan {
  SpanIndex index;
  std::uint8_t chunks;  // paid for, from its start
};

class Arena {
 public:
  // `offset` is a multiple of the region size. `limit_bytes` 0 means none.
  // `headers_offset` is where the image keeps kRegionHeaderBytes beside each region, which go with
  // it. `table` holds Arena::table_bytes(regions) of zeros.
  Arena(const base::MemoryMap& image, std::uint64_t offset, std::uint64_t headers_offset,
        std::uint32_t regions, std::uint64_t limit_bytes, base::MemoryMap table);
  static std::uint64_t table_bytes(std::uint32_t regions) noexcept;

  std::optional<TakenSpan> take(Room room) noexcept;
  // Pays for a taken span's first `chunks`; false when the budget has no more, and nothing changed.
  bool extend(SpanIndex span, std::uint32_t chunks) noexcept;
  void give(SpanIndex span) noexcept;
  // What the region costs now.
  std::uint64_t paid_bytes(RegionIndex region) const noexcept;

  // Between the two, no span of the region is taken and the region isn't given back. `begin` is
  // false for a region that holds nothing or is being evacuated already.
  bool begin_evacuation(RegionIndex region) noexcept;
  void end_evacuation(RegionIndex region) noexcept;

  // Gives back the empty region that is kept for the next growth.
  void release_spare() noexcept;
  // Gives everything back. No span may be in use.
  void reset() noexcept;

  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t used_max() const noexcept { return used_max_.load(std::memory_order_relaxed); }
  void reset_used_max() noexcept;
  std::uint64_t huge_bytes() const noexcept;
  std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::uint64_t bytes) noexcept;
  // Regions that were ever used; those at and above it hold nothing.
  RegionIndex region_end() const noexcept { return region_end_.load(std::memory_order_acquire); }

  // Recomputes the conservation law; false when it does not hold. With the arena at rest.
  bool check() const noexcept;

 private:
  enum class State : std::uint8_t { absent, small, huge };
  static constexpr std::uint16_t kAllFree = 0xffff;
  static_assert(kSpansPerRegion == 16);
  static constexpr RegionIndex kNone = ~RegionIndex{0};
  static constexpr RegionIndex kSmallRegions = 16;
  static constexpr RegionIndex kSmallRegionsMax = 32;  // with those that compaction makes

  struct Region {
    std::uint16_t free = 0;  // bit i: span i isn't taken
    State state = State::absent;
    bool withheld = false;  // being made ready or evacuated: in no list, not given back
    bool advised_huge = false;
    std::uint8_t listed = 0;  // its list, kSpansPerRegion x state + free spans; 0: in none
    RegionIndex prev = kNone, next = kNone;
    std::array<std::uint8_t, kSpansPerRegion> chunks{};  // of a small region: paid in each span

    std::uint64_t small_bytes() const noexcept;
  };

  std::optional<TakenSpan> take_listed(State state, std::uint32_t free_max) noexcept
      UZRAM_REQUIRES(mutex_);
  std::optional<RegionIndex> absent_region() noexcept UZRAM_REQUIRES(mutex_);
  void keep_absent(RegionIndex index) noexcept UZRAM_REQUIRES(mutex_);
  bool pay(std::uint64_t bytes) noexcept UZRAM_REQUIRES(mutex_);
  void pay_back(std::uint64_t bytes) noexcept UZRAM_REQUIRES(mutex_);
  void list(RegionIndex index) noexcept UZRAM_REQUIRES(mutex_);
  void unlist(RegionIndex index) noexcept UZRAM_REQUIRES(mutex_);
  // Settles a region whose free spans changed: listed, kept as the spare, or marked absent, in
  // which case true is returned and the caller gives its memory back and then calls `vacate`.
  bool settle(RegionIndex index) noexcept UZRAM_REQUIRES(mutex_);
  void vacate(RegionIndex index, std::uint64_t paid) noexcept;
  std::uint64_t region_offset(RegionIndex index) const noexcept {
    return offset_ + std::uint64_t{index} * kRegionBytes;
  }

  const base::MemoryMap& image_;
  const std::uint64_t offset_, headers_offset_;
  const RegionIndex region_count_;
  const bool huge_wanted_;

  std::atomic<std::uint64_t> used_{0}, used_max_{0}, limit_;
  std::atomic<RegionIndex> region_end_{0};
  mutable base::Mutex mutex_;
  base::MemoryMap region_memory_;  // lazily taken; all zero is an absent region
  Region* const regions_ UZRAM_PT_GUARDED_BY(mutex_);
  RegionIndex heads_[3 * kSpansPerRegion + 1] UZRAM_GUARDED_BY(mutex_);
  RegionIndex absent_ UZRAM_GUARDED_BY(mutex_) = kNone;  // list of absent regions below the end
  RegionIndex spare_ UZRAM_GUARDED_BY(mutex_) = kNone;
  std::uint32_t huge_regions_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::uint32_t small_regions_ UZRAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace uzram::pool

#endif  // UZRAM_POOL_ARENA_H_
