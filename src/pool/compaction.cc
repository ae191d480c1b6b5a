// Compaction: empties the sparsest region into the room that other spans of the same classes have.
//
// Whole regions and not single spans, because memory under huge pages goes back to the system only
// as a whole region. Small regions are emptied the same way; there, each span that empties goes
// back at once.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "pool/pool.h"

namespace uzram::pool {

// Room to move into, taken several objects at a time, of one class at a time.
struct Pool::Evacuation {
  Mover& mover;
  std::uint64_t moved = 0;
  ClassIndex cls = 0;
  std::uint32_t room_count = 0;
  std::array<ObjectRef, kBatch> room{};
};

Step Pool::compact_step(Mover& mover, std::uint64_t slack_target, std::uint64_t& moved) noexcept {
  RegionIndex region = 0;
  if (slack() <= slack_target || !sparsest_region(region)) return Step::nothing;
  if (evacuate(region, mover, moved)) return Step::emptied;
  const base::MutexLock lock(skip_mutex_);
  if (skip_.size() == kSkipMax) return Step::nothing;
  skip_.push_back(region);
  return Step::skipped;
}

void Pool::retry_all() noexcept {
  const base::MutexLock lock(skip_mutex_);
  skip_.clear();
}

bool Pool::sparsest_region(RegionIndex& sparsest) noexcept {
  std::uint64_t least = std::uint64_t{kRegionBytes} * 31 / 32;
  bool found = false;
  const base::MutexLock lock(skip_mutex_);
  const RegionIndex end = arena_.region_end();
  for (RegionIndex region = 0; region < end; ++region) {
    const std::uint64_t filled = filled_bytes(region);
    if (filled == 0 || filled >= least) continue;
    if (std::find(skip_.begin(), skip_.end(), region) != skip_.end()) continue;
    least = filled;
    sparsest = region;
    found = true;
  }
  return found;
}

// Racy by design: a guess of where compaction pays.
std::uint64_t Pool::filled_bytes(RegionIndex region) const noexcept {
  std::uint64_t filled = 0;
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) {
    const Span& span = spans_[region * kSpansPerRegion + i];
    if (span.state.load(std::memory_order_acquire) == State::free) continue;
    const SizeClass& size = size_class(span.cls.load(std::memory_order_relaxed));
    filled +=
        std::uint64_t{size.count - span.free_count.load(std::memory_order_relaxed)} * size.stride;
  }
  return filled;
}

bool Pool::evacuate(RegionIndex region, Mover& mover, std::uint64_t& moved) noexcept {
  if (!arena_.begin_evacuation(region)) return false;
  const SpanIndex first = region * kSpansPerRegion;
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) seize_span(first + i);
  Evacuation evacuation{mover};
  bool emptied = true;
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) {
    emptied = empty_span(first + i, evacuation) && emptied;
  }
  if (evacuation.room_count > 0) {
    give_objects(evacuation.cls, evacuation.room.data(), evacuation.room_count);
  }
  for (std::uint32_t i = 0; i < kSpansPerRegion; ++i) settle_span(first + i);
  arena_.end_evacuation(region);
  moved += evacuation.moved;
  return emptied;
}

void Pool::seize_span(SpanIndex index) noexcept {
  Span& span = spans_[index];
  if (span.state.load(std::memory_order_acquire) != State::live) return;
  Class& owner = classes_[span.cls.load(std::memory_order_relaxed)];
  const base::MutexLock lock(owner.mutex);
  // It may have emptied before the lock; it can't have been opened anew: its region is withheld.
  if (span.state.load(std::memory_order_relaxed) != State::live) return;
  unlink(owner, index);
  span.state.store(State::evacuating, std::memory_order_relaxed);
}

// True when nothing is left in it. Objects in a magazine, in the hands of a writer, or locked stay.
bool Pool::empty_span(SpanIndex index, Evacuation& evacuation) noexcept {
  Span& span = spans_[index];
  if (span.state.load(std::memory_order_acquire) != State::evacuating) return true;
  const ClassIndex cls = span.cls.load(std::memory_order_relaxed);
  const SizeClass& size = size_class(cls);
  std::array<std::uint64_t, (kSpanBytes / internal::kStrideMin + 63) / 64> free;
  {
    const base::MutexLock lock(classes_[cls].mutex);
    std::copy_n(bitmap(index), size.bitmap_words(), free.begin());
  }
  if (evacuation.cls != cls && evacuation.room_count > 0) {
    give_objects(evacuation.cls, evacuation.room.data(), evacuation.room_count);
    evacuation.room_count = 0;
  }
  evacuation.cls = cls;
  std::array<ObjectRef, Cache::kMagazineObjects> done;
  std::uint32_t done_count = 0;
  bool emptied = true;
  for (std::uint32_t position = 0; position < size.count; ++position) {
    if ((free[position / 64] >> (position % 64) & 1U) != 0) continue;
    if (evacuation.room_count == 0) {
      evacuation.room_count = take_objects(cls, evacuation.room.data(), kBatch, false);
      if (evacuation.room_count == 0) {
        emptied = false;
        break;
      }
    }
    const ObjectRef from = object_at(index, position, size);
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

// Back to service, or to the arena when it is empty.
void Pool::settle_span(SpanIndex index) noexcept {
  Span& span = spans_[index];
  if (span.state.load(std::memory_order_acquire) != State::evacuating) return;
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
