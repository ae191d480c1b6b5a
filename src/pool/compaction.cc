// Compaction: empties the sparsest region into the room that other spans of the same classes have.
//
// Whole regions and not single spans, because memory under huge pages goes back to the system only
// as a whole region. Small regions are emptied the same way; there, each span that empties goes
// back at once.
//
// Each class also has a last span, its tail, which is half empty on average. At rest tails go to
// small regions, where only what they hold is paid for, and so do the last spans that would keep a
// huge region alive.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "pool/pool.h"

namespace uzram::pool {

// Room to move into, taken several objects at a time, of one class at a time.
struct Pool::Evacuation {
  Mover& mover;
  Room source;
  std::uint64_t moved = 0;
  ClassIndex cls = 0;
  std::uint32_t room_count = 0;
  std::array<ObjectRef, kBatch> room{};
};

Step Pool::compact_step(Mover& mover, std::uint64_t slack_target, bool resting,
                        std::uint64_t& moved) noexcept {
  if (slack() <= slack_target) return Step::nothing;
  if (resting) {
    const Step step = empty_one_tail(mover, moved);
    if (step != Step::nothing) return step;
  }
  // What moves to small regions is rounded up to chunks there: from a region that wastes no more
  // than this nothing would be gained.
  constexpr std::uint64_t kRoundingMax = kSpansPerRegion * (kChunkBytes + kChunkBytes / 16);
  RegionIndex region = 0;
  if (!sparsest_region(region, resting ? kRoundingMax : kRegionBytes / 32)) return Step::nothing;
  Evacuation evacuation{mover, resting ? Room::paid_or_small : Room::paid};
  const bool emptied = evacuate(region, evacuation);
  moved += evacuation.moved;
  if (emptied) return Step::emptied;
  const base::MutexLock lock(skip_mutex_);
  if (skip_.size() == kSkipMax) return Step::nothing;
  skip_.push_back(region);
  return Step::skipped;
}

void Pool::retry_all() noexcept {
  {
    const base::MutexLock lock(skip_mutex_);
    skip_.clear();
  }
  for (Class& owner : classes_) {
    const base::MutexLock lock(owner.mutex);
    owner.stuck = false;
  }
}

Step Pool::empty_one_tail(Mover& mover, std::uint64_t& moved) noexcept {
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    Class& owner = classes_[cls];
    const SpanIndex index = seize_tail(owner, size_class(cls));
    if (index == kNone) continue;
    Evacuation evacuation{mover, Room::small};
    const bool emptied = empty_span(index, evacuation);
    give_room(evacuation);
    settle_span(index);
    moved += evacuation.moved;
    if (emptied) return Step::emptied;
    const base::MutexLock lock(owner.mutex);
    owner.stuck = true;
    return Step::skipped;
  }
  return Step::nothing;
}

// A span of the class with much paid room that nothing fills, taken out of service.
SpanIndex Pool::seize_tail(Class& owner, const SizeClass& size) noexcept {
  const base::MutexLock lock(owner.mutex);
  if (owner.stuck) return kNone;
  for (std::uint32_t bucket = kBuckets; bucket-- > 0;) {
    for (SpanIndex index = owner.heads[bucket]; index != kNone; index = spans_[index].next) {
      Span& span = spans_[index];
      const std::uint32_t filled =
          (size.count - span.free_count.load(std::memory_order_relaxed)) * size.stride;
      if (span.chunks * kChunkBytes < filled + kSpanBytes / 8) continue;
      unlink(owner, index);
      span.state.store(State::evacuating, std::memory_order_relaxed);
      return index;
    }
  }
  return kNone;
}

bool Pool::sparsest_region(RegionIndex& sparsest, std::uint64_t unfilled_min) noexcept {
  std::uint64_t most = unfilled_min;
  bool found = false;
  const base::MutexLock lock(skip_mutex_);
  const RegionIndex end = arena_.region_end();
  for (RegionIndex region = 0; region < end; ++region) {
    const std::uint64_t unfilled = unfilled_bytes(region);
    if (unfilled <= most) continue;
    if (std::find(skip_.begin(), skip_.end(), region) != skip_.end()) continue;
    most = unfilled;
    sparsest = region;
    found = true;
  }
  return found;
}

// Racy by design: a guess of where compaction pays. None in an empty region.
std::uint64_t Pool::unfilled_bytes(RegionIndex region) const noexcept {
  std::uint64_t filled = 0;
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) {
    const Span& span = spans_[region * kSpansPerRegion + i];
    if (span.state.load(std::memory_order_acquire) == State::free) continue;
    const SizeClass& size = size_class(span.cls.load(std::memory_order_relaxed));
    filled +=
        std::uint64_t{size.count - span.free_count.load(std::memory_order_relaxed)} * size.stride;
  }
  if (filled == 0) return 0;
  const std::uint64_t paid = arena_.paid_bytes(region);
  return paid > filled ? paid - filled : 0;
}

bool Pool::evacuate(RegionIndex region, Evacuation& evacuation) noexcept {
  if (!arena_.begin_evacuation(region)) return false;
  const SpanIndex first = region * kSpansPerRegion;
  std::array<bool, kSpansPerRegion> seized{};
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) seized[i] = seize_span(first + i);
  bool emptied = true;
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) {
    if (seized[i]) emptied = empty_span(first + i, evacuation) && emptied;
  }
  give_room(evacuation);
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) {
    if (seized[i]) settle_span(first + i);
  }
  arena_.end_evacuation(region);
  return emptied;
}

void Pool::give_room(Evacuation& evacuation) noexcept {
  if (evacuation.room_count == 0) return;
  give_objects(evacuation.cls, evacuation.room.data(), evacuation.room_count);
  evacuation.room_count = 0;
}

// False where there is nothing to empty, or another thread does so already.
bool Pool::seize_span(SpanIndex index) noexcept {
  Span& span = spans_[index];
  if (span.state.load(std::memory_order_acquire) != State::live) return false;
  Class& owner = classes_[span.cls.load(std::memory_order_relaxed)];
  const base::MutexLock lock(owner.mutex);
  // It may have emptied before the lock; it can't have been opened anew: its region is withheld.
  if (span.state.load(std::memory_order_relaxed) != State::live) return false;
  unlink(owner, index);
  span.state.store(State::evacuating, std::memory_order_relaxed);
  return true;
}

// True when nothing is left in it. Objects in a magazine, in the hands of a writer, or locked stay.
bool Pool::empty_span(SpanIndex index, Evacuation& evacuation) noexcept {
  const Span& span = spans_[index];
  const ClassIndex cls = span.cls.load(std::memory_order_relaxed);
  const SizeClass& size = size_class(cls);
  std::array<std::uint64_t, (kSpanBytes / internal::kStrideMin + 63) / 64> free;
  {
    const base::MutexLock lock(classes_[cls].mutex);
    std::copy_n(bitmap(index), size.bitmap_words(), free.begin());
  }
  if (evacuation.cls != cls) give_room(evacuation);
  evacuation.cls = cls;
  std::array<ObjectRef, Cache::kMagazineObjects> done;
  std::uint32_t done_count = 0;
  std::uint32_t left = size.count;
  for (std::uint32_t word = 0; word < size.bitmap_words(); ++word)
    left -= static_cast<std::uint32_t>(std::popcount(free[word]));
  bool emptied = true;
  for (std::uint32_t position = 0; position < size.count; ++position) {
    if ((free[position / 64] >> (position % 64) & 1U) != 0) continue;
    if (evacuation.room_count == 0) {
      // No more than what is left: room in a small region is paid for once it was taken.
      evacuation.room_count =
          take_objects(cls, evacuation.room.data(), std::min(kBatch, left), evacuation.source);
      if (evacuation.room_count == 0) {
        emptied = false;
        break;
      }
    }
    const ObjectRef from = object_at(index, position, size);
    --left;
    if (!evacuation.mover.move(from, evacuation.room[evacuation.room_count - 1],
                               cls == kRawClass)) {
      emptied = false;
      continue;
    }
    --evacuation.room_count;
    ++evacuation.moved;
    done[done_count++] = from;
    if (done_count == done.size()) {
      give_objects(cls, done.data(), done_count);
      done_count = 0;
    }
  }
  if (done_count > 0) give_objects(cls, done.data(), done_count);
  return emptied;
}

// A seized span: back to service, or to the arena when it is empty.
void Pool::settle_span(SpanIndex index) noexcept {
  Span& span = spans_[index];
  Class& owner = classes_[span.cls.load(std::memory_order_relaxed)];
  {
    const base::MutexLock lock(owner.mutex);
    if (span.free_count.load(std::memory_order_relaxed) <
        size_class(span.cls.load(std::memory_order_relaxed)).count) {
      span.state.store(State::live, std::memory_order_relaxed);
      link(owner, index);
      return;
    }
    span.state.store(State::free, std::memory_order_release);
    owner.spans.fetch_sub(1, std::memory_order_relaxed);
  }
  arena_.give(index);
}

}  // namespace uzram::pool
