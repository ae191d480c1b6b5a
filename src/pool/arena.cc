#include "pool/arena.h"

#include <bit>
#include <numeric>
#include <utility>

namespace uzram::pool {

std::uint64_t Arena::table_bytes(std::uint32_t regions) noexcept {
  return std::uint64_t{regions} * sizeof(Region);
}

Arena::Arena(const base::MemoryMap& image, std::uint64_t offset, std::uint64_t headers_offset,
             std::uint32_t regions, std::uint64_t limit_bytes, base::MemoryMap table)
    : image_(image),
      offset_(offset),
      headers_offset_(headers_offset),
      region_count_(regions),
      huge_wanted_(base::huge_pages_enabled()),
      limit_(limit_bytes),
      region_memory_(std::move(table)),
      regions_(reinterpret_cast<Region*>(region_memory_.data())) {
  for (RegionIndex& head : heads_) head = kNone;
}

std::uint64_t Arena::Region::small_bytes() const noexcept {
  return std::accumulate(chunks.begin(), chunks.end(), std::uint64_t{0}) * kChunkBytes;
}

std::optional<TakenSpan> Arena::take(Room room) noexcept {
  RegionIndex index = kNone;
  bool advise = false;
  bool huge = false;
  {
    const base::MutexLock lock(mutex_);
    if (room != Room::small) {
      const std::uint32_t free_max = room == Room::any ? kSpansPerRegion : kSpansPerRegion - 1;
      if (const auto span = take_listed(State::huge, free_max)) return span;
      if (room == Room::paid) return std::nullopt;
    }
    if (const auto span = take_listed(State::small, kSpansPerRegion)) return span;
    if (room != Room::any && huge_wanted_ && small_regions_ >= kSmallRegionsMax)
      return std::nullopt;
    const auto absent = absent_region();
    if (!absent) return std::nullopt;
    index = *absent;
    huge =
        room == Room::any && huge_wanted_ && small_regions_ >= kSmallRegions && pay(kRegionBytes);
    if (!huge && !pay(kChunkBytes)) {
      keep_absent(index);
      return std::nullopt;
    }
    Region& region = regions_[index];
    region.state = huge ? State::huge : State::small;
    (huge ? huge_regions_ : small_regions_) += 1;
    region.free = kAllFree & ~1U;
    region.chunks[0] = huge ? 0 : 1;
    region.withheld = true;
    advise = std::exchange(region.advised_huge, huge) != huge;
  }
  if (advise) image_.advise_huge(region_offset(index), kRegionBytes, huge);
  const bool ready = !huge || image_.populate(region_offset(index), kRegionBytes);
  if (!ready) image_.release(region_offset(index), kRegionBytes);
  {
    const base::MutexLock lock(mutex_);
    regions_[index].withheld = false;
    if (ready) {
      list(index);
      return TakenSpan{index * kSpansPerRegion,
                       static_cast<std::uint8_t>(huge ? kChunksPerSpan : 1)};
    }
    regions_[index].state = State::absent;
    --huge_regions_;
  }
  vacate(index, kRegionBytes);
  return std::nullopt;
}

std::optional<TakenSpan> Arena::take_listed(State state, std::uint32_t free_max) noexcept {
  // Fullest region first: the others then empty by themselves.
  const std::uint32_t base = kSpansPerRegion * static_cast<std::uint32_t>(state);
  for (std::uint32_t free = 1; free <= free_max; ++free) {
    const RegionIndex index = heads_[base + free];
    if (index == kNone) continue;
    const bool small = state == State::small;
    if (small && !pay(kChunkBytes)) return std::nullopt;
    Region& region = regions_[index];
    const auto span = static_cast<std::uint32_t>(std::countr_zero(region.free));
    unlist(index);
    region.free = static_cast<std::uint16_t>(region.free & (region.free - 1));
    region.chunks[span] = small ? 1 : 0;
    if (index == spare_) spare_ = kNone;
    list(index);
    return TakenSpan{index * kSpansPerRegion + span,
                     static_cast<std::uint8_t>(small ? 1 : kChunksPerSpan)};
  }
  return std::nullopt;
}

std::optional<RegionIndex> Arena::absent_region() noexcept {
  if (absent_ != kNone) return std::exchange(absent_, regions_[absent_].next);
  const RegionIndex end = region_end_.load(std::memory_order_relaxed);
  if (end == region_count_) return std::nullopt;
  region_end_.store(end + 1, std::memory_order_release);
  return end;
}

void Arena::keep_absent(RegionIndex index) noexcept {
  regions_[index].next = std::exchange(absent_, index);
}

bool Arena::pay(std::uint64_t bytes) noexcept {
  const std::uint64_t used = used_.load(std::memory_order_relaxed);
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit != 0 && (used > limit || bytes > limit - used)) return false;
  used_.store(used + bytes, std::memory_order_relaxed);
  if (used + bytes > used_max_.load(std::memory_order_relaxed)) {
    used_max_.store(used + bytes, std::memory_order_relaxed);
  }
  return true;
}

void Arena::pay_back(std::uint64_t bytes) noexcept {
  used_.store(used_.load(std::memory_order_relaxed) - bytes, std::memory_order_relaxed);
}

void Arena::list(RegionIndex index) noexcept {
  Region& region = regions_[index];
  const auto free = static_cast<std::uint32_t>(std::popcount(region.free));
  if (free == 0 || region.withheld) return;
  region.listed =
      static_cast<std::uint8_t>(kSpansPerRegion * static_cast<std::uint32_t>(region.state) + free);
  RegionIndex& head = heads_[region.listed];
  region.prev = kNone;
  region.next = head;
  if (head != kNone) regions_[head].prev = index;
  head = index;
}

void Arena::unlist(RegionIndex index) noexcept {
  Region& region = regions_[index];
  if (region.listed == 0) return;
  (region.prev == kNone ? heads_[region.listed] : regions_[region.prev].next) = region.next;
  if (region.next != kNone) regions_[region.next].prev = region.prev;
  region.listed = 0;
}

bool Arena::settle(RegionIndex index) noexcept {
  Region& region = regions_[index];
  unlist(index);
  if (region.free != kAllFree || region.withheld) {
    list(index);
    return false;
  }
  if (region.state == State::huge && spare_ == kNone) {
    spare_ = index;
    list(index);
    return false;
  }
  (region.state == State::huge ? huge_regions_ : small_regions_) -= 1;
  region.state = State::absent;
  return true;
}

void Arena::vacate(RegionIndex index, std::uint64_t paid) noexcept {
  image_.release(headers_offset_ + std::uint64_t{index} * kRegionHeaderBytes, kRegionHeaderBytes);
  const base::MutexLock lock(mutex_);
  pay_back(paid);
  keep_absent(index);
}

bool Arena::extend(SpanIndex span, std::uint32_t chunks) noexcept {
  const base::MutexLock lock(mutex_);
  Region& region = regions_[span / kSpansPerRegion];
  if (region.state == State::huge) return true;
  std::uint8_t& paid = region.chunks[span % kSpansPerRegion];
  if (chunks <= paid) return true;
  if (!pay(std::uint64_t{chunks - paid} * kChunkBytes)) return false;
  paid = static_cast<std::uint8_t>(chunks);
  return true;
}

std::uint64_t Arena::paid_bytes(RegionIndex index) const noexcept {
  const base::MutexLock lock(mutex_);
  const Region& region = regions_[index];
  return region.state == State::huge ? kRegionBytes : region.small_bytes();
}

void Arena::give(SpanIndex span) noexcept {
  const RegionIndex index = span / kSpansPerRegion;
  const auto bit = static_cast<std::uint16_t>(1U << (span % kSpansPerRegion));
  bool small = false;
  std::uint64_t paid = 0;
  {
    const base::MutexLock lock(mutex_);
    small = regions_[index].state == State::small;
    paid = std::uint64_t{regions_[index].chunks[span % kSpansPerRegion]} * kChunkBytes;
  }
  // Still taken, so nobody else touches it.
  if (small) image_.release(offset_ + std::uint64_t{span} * kSpanBytes, paid);
  {
    const base::MutexLock lock(mutex_);
    regions_[index].free = static_cast<std::uint16_t>(regions_[index].free | bit);
    regions_[index].chunks[span % kSpansPerRegion] = 0;
    const bool emptied = settle(index);
    pay_back(paid);
    if (!emptied) return;
  }
  if (!small) image_.release(region_offset(index), kRegionBytes);
  vacate(index, small ? 0 : kRegionBytes);
}

bool Arena::begin_evacuation(RegionIndex index) noexcept {
  const base::MutexLock lock(mutex_);
  Region& region = regions_[index];
  if (region.state == State::absent || region.withheld || region.free == kAllFree) return false;
  unlist(index);
  region.withheld = true;
  return true;
}

void Arena::end_evacuation(RegionIndex index) noexcept {
  bool huge = false;
  {
    const base::MutexLock lock(mutex_);
    regions_[index].withheld = false;
    huge = regions_[index].state == State::huge;
    if (!settle(index)) return;
  }
  if (huge) image_.release(region_offset(index), kRegionBytes);
  vacate(index, huge ? kRegionBytes : 0);
}

void Arena::release_spare() noexcept {
  RegionIndex index = kNone;
  {
    const base::MutexLock lock(mutex_);
    index = std::exchange(spare_, kNone);
    if (index == kNone) return;
    unlist(index);
    regions_[index].state = State::absent;
    --huge_regions_;
  }
  image_.release(region_offset(index), kRegionBytes);
  vacate(index, kRegionBytes);
}

void Arena::reset() noexcept {
  const base::MutexLock lock(mutex_);
  const RegionIndex end = region_end_.load(std::memory_order_relaxed);
  image_.release(offset_, std::uint64_t{end} * kRegionBytes);
  image_.release(headers_offset_, std::uint64_t{end} * kRegionHeaderBytes);
  for (RegionIndex index = 0; index < end; ++index) {
    const bool advised = regions_[index].advised_huge;
    regions_[index] = Region{};
    regions_[index].advised_huge = advised;
  }
  for (RegionIndex& head : heads_) head = kNone;
  absent_ = kNone;
  spare_ = kNone;
  huge_regions_ = small_regions_ = 0;
  region_end_.store(0, std::memory_order_release);
  used_.store(0, std::memory_order_relaxed);
  used_max_.store(0, std::memory_order_relaxed);
}

void Arena::reset_used_max() noexcept {
  const base::MutexLock lock(mutex_);
  used_max_.store(used_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

std::uint64_t Arena::huge_bytes() const noexcept {
  const base::MutexLock lock(mutex_);
  return std::uint64_t{huge_regions_} * kRegionBytes;
}

void Arena::set_limit(std::uint64_t bytes) noexcept {
  const base::MutexLock lock(mutex_);
  limit_.store(bytes, std::memory_order_relaxed);
}

bool Arena::check() const noexcept {
  const base::MutexLock lock(mutex_);
  std::uint64_t used = 0;
  std::uint32_t huge = 0, small = 0;
  for (RegionIndex index = 0; index < region_end_.load(std::memory_order_relaxed); ++index) {
    const Region& region = regions_[index];
    if (region.withheld) return false;
    if (region.state == State::huge) {
      ++huge;
      used += kRegionBytes;
      if (region.free == kAllFree && index != spare_) return false;
    } else if (region.state == State::small) {
      ++small;
      used += region.small_bytes();
      if (region.free == kAllFree) return false;
      for (std::uint32_t span = 0; span < kSpansPerRegion; ++span) {
        if ((region.free >> span & 1U) != (region.chunks[span] == 0 ? 1U : 0U)) return false;
      }
    }
  }
  return used == this->used() && huge == huge_regions_ && small == small_regions_;
}

}  // namespace uzram::pool
