#include "pool/pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

namespace uzram::pool {

std::uint64_t Pool::raw_header_bytes(std::uint32_t regions) noexcept {
  return std::uint64_t{regions} * kRegionHeaderBytes;
}

Result<std::unique_ptr<Pool>> Pool::create(const base::MemoryMap& image, const Layout& layout,
                                           std::uint64_t limit_bytes) {
  auto region_table = base::MemoryMap::reserve(Arena::table_bytes(layout.regions));
  if (!region_table) return tl::unexpected(region_table.error());
  auto span_table =
      base::MemoryMap::reserve(std::uint64_t{layout.regions} * kSpansPerRegion * sizeof(Span));
  if (!span_table) return tl::unexpected(span_table.error());
  return std::unique_ptr<Pool>(
      new Pool(image, layout, limit_bytes, std::move(*region_table), std::move(*span_table)));
}

Pool::Pool(const base::MemoryMap& image, const Layout& layout, std::uint64_t limit_bytes,
           base::MemoryMap region_table, base::MemoryMap span_table)
    : base_(image.data()),
      arena_offset_(layout.arena_offset),
      raw_headers_(
          reinterpret_cast<std::atomic<std::uint64_t>*>(image.data() + layout.raw_headers_offset)),
      span_memory_(std::move(span_table)),
      spans_(reinterpret_cast<Span*>(span_memory_.data())),
      arena_(image, layout.arena_offset, layout.raw_headers_offset, layout.regions, limit_bytes,
             std::move(region_table)) {
  skip_.reserve(kSkipMax);
}

ObjectRef Pool::allocate(Cache& cache, ClassIndex cls) noexcept {
  auto& magazine = cache.magazines_[cls];
  if (magazine.count == 0) return allocate_slow(cache, cls);
  return magazine.objects[--magazine.count];
}

ObjectRef Pool::allocate_slow(Cache& cache, ClassIndex cls) noexcept {
  auto& magazine = cache.magazines_[cls];
  magazine.count = take_objects(cls, magazine.objects.data(), kBatch, Room::any);
  if (magazine.count > 0) return magazine.objects[--magazine.count];
  if (cls == kRawClass) return kNoObject;
  // No room for another span: a larger object that is free already is better than none.
  for (std::uint32_t larger = cls + 1U; larger < kClassCount; ++larger) {
    auto& other = cache.magazines_[larger];
    if (other.count > 0) return other.objects[--other.count];
    ObjectRef object = kNoObject;
    if (take_objects(static_cast<ClassIndex>(larger), &object, 1, Room::paid) == 1) return object;
  }
  return kNoObject;
}

void Pool::free(Cache& cache, ObjectRef object) noexcept {
  const Span& span = spans_[span_of(object)];
  const ClassIndex cls = span.cls.load(std::memory_order_relaxed);
  if (span.state.load(std::memory_order_relaxed) == State::evacuating) {
    give_objects(cls, &object, 1);  // kept out of reach, so that the span can empty
    return;
  }
  auto& magazine = cache.magazines_[cls];
  if (magazine.count == Cache::kMagazineObjects) {
    // The oldest go: what was freed last is still in the processor's cache.
    give_objects(cls, magazine.objects.data(), kBatch);
    magazine.count -= kBatch;
    std::copy_n(magazine.objects.begin() + kBatch, magazine.count, magazine.objects.begin());
  }
  magazine.objects[magazine.count++] = object;
}

void Pool::flush(Cache& cache) noexcept {
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    auto& magazine = cache.magazines_[cls];
    if (magazine.count == 0) continue;
    give_objects(static_cast<ClassIndex>(cls), magazine.objects.data(), magazine.count);
    magazine.count = 0;
  }
}

void Pool::forget(Cache& cache) noexcept {
  for (auto& magazine : cache.magazines_) magazine.count = 0;
}

std::uint64_t* Pool::bitmap(SpanIndex index) const noexcept {
  const SizeClass& size = size_class(spans_[index].cls.load(std::memory_order_relaxed));
  if (size.count <= 64) return &spans_[index].free_bits;
  return reinterpret_cast<std::uint64_t*>(base_ + arena_offset_ +
                                          std::uint64_t{index} * kSpanBytes);
}

std::uint32_t Pool::take_objects(ClassIndex cls, ObjectRef* out, std::uint32_t wanted,
                                 Room room) noexcept {
  Class& owner = classes_[cls];
  {
    const base::MutexLock lock(owner.mutex);
    const std::uint32_t got = take_from_partial(owner, cls, out, wanted);
    if (got > 0) return got;
  }
  const auto span = arena_.take(room);
  std::uint32_t got = 0;
  {
    const base::MutexLock lock(owner.mutex);
    // Another thread may have freed or opened one meanwhile: a span that nothing is taken from
    // would stay for ever.
    got = take_from_partial(owner, cls, out, wanted);
    if (got == 0 && span) {
      open_span(owner, *span, cls);
      return take_from_partial(owner, cls, out, wanted);
    }
  }
  if (span) arena_.give(span->index);
  return got;
}

std::uint32_t Pool::take_from_partial(Class& owner, ClassIndex cls, ObjectRef* out,
                                      std::uint32_t wanted) noexcept {
  const SizeClass& size = size_class(cls);
  std::uint32_t got = 0;
  // The fullest spans first, so that the others empty by themselves.
  for (std::uint32_t bucket = 0; bucket < kBuckets && got < wanted; ++bucket) {
    SpanIndex next = kNone;
    for (SpanIndex index = owner.heads[bucket]; index != kNone && got < wanted; index = next) {
      next = spans_[index].next;
      const std::uint32_t taken = take_from_span(index, size, out + got, wanted - got);
      if (taken == 0) continue;
      got += taken;
      unlink(owner, index);
      link(owner, index);
    }
  }
  owner.allocated.fetch_add(got, std::memory_order_relaxed);
  return got;
}

// Lowest first, so that what isn't paid for stays so.
std::uint32_t Pool::take_from_span(SpanIndex index, const SizeClass& size, ObjectRef* out,
                                   std::uint32_t wanted) noexcept {
  Span& span = spans_[index];
  std::uint64_t* bits = bitmap(index);
  std::uint32_t got = 0;
  for (std::uint32_t word = 0; word < size.bitmap_words(); ++word) {
    while (bits[word] != 0 && got < wanted) {
      const std::uint32_t position =
          word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits[word]));
      if (!pay_for(index, size.first + (position + 1) * size.stride)) {
        wanted = got;
        break;
      }
      bits[word] &= bits[word] - 1;
      out[got++] = object_at(index, position, size);
    }
    if (got == wanted) break;
  }
  span.free_count.store(
      static_cast<std::uint16_t>(span.free_count.load(std::memory_order_relaxed) - got),
      std::memory_order_relaxed);
  return got;
}

bool Pool::pay_for(SpanIndex index, std::uint32_t end) noexcept {
  Span& span = spans_[index];
  const std::uint32_t chunks = (end + kChunkBytes - 1) / kChunkBytes;
  if (chunks <= span.chunks) return true;
  if (!arena_.extend(index, chunks)) return false;
  span.chunks = static_cast<std::uint8_t>(chunks);
  return true;
}

void Pool::give_objects(ClassIndex cls, const ObjectRef* objects, std::uint32_t count) noexcept {
  Class& owner = classes_[cls];
  const SizeClass& size = size_class(cls);
  std::array<SpanIndex, Cache::kMagazineObjects> emptied;
  std::uint32_t emptied_count = 0;
  {
    const base::MutexLock lock(owner.mutex);
    for (std::uint32_t i = 0; i < count; ++i) {
      const SpanIndex index = span_of(objects[i]);
      const std::uint32_t position = position_in_span(objects[i], size);
      Span& span = spans_[index];
      bitmap(index)[position / 64] |= std::uint64_t{1} << (position % 64);
      const auto free =
          static_cast<std::uint16_t>(span.free_count.load(std::memory_order_relaxed) + 1);
      span.free_count.store(free, std::memory_order_relaxed);
      if (span.state.load(std::memory_order_relaxed) == State::evacuating) continue;
      unlink(owner, index);
      if (free < size.count) {
        link(owner, index);
        continue;
      }
      span.state.store(State::free, std::memory_order_release);
      owner.spans.fetch_sub(1, std::memory_order_relaxed);
      emptied[emptied_count++] = index;
    }
    owner.allocated.fetch_sub(count, std::memory_order_relaxed);
  }
  for (std::uint32_t i = 0; i < emptied_count; ++i) arena_.give(emptied[i]);
}

void Pool::open_span(Class& owner, TakenSpan taken, ClassIndex cls) noexcept {
  const SizeClass& size = size_class(cls);
  const SpanIndex index = taken.index;
  Span& span = spans_[index];
  span.chunks = taken.chunks;
  span.cls.store(cls, std::memory_order_relaxed);
  std::uint64_t* bits = bitmap(index);
  for (std::uint32_t word = 0; word < size.bitmap_words(); ++word) {
    const std::uint32_t left = size.count - word * 64;
    bits[word] = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
  }
  span.free_count.store(static_cast<std::uint16_t>(size.count), std::memory_order_relaxed);
  span.linked = false;
  span.state.store(State::live, std::memory_order_release);
  owner.spans.fetch_add(1, std::memory_order_relaxed);
  link(owner, index);
}

void Pool::link(Class& owner, SpanIndex index) noexcept {
  Span& span = spans_[index];
  const std::uint32_t free = span.free_count.load(std::memory_order_relaxed);
  if (free == 0) return;
  span.bucket = static_cast<std::uint8_t>(
      (free - 1) * kBuckets / size_class(span.cls.load(std::memory_order_relaxed)).count);
  SpanIndex& head = owner.heads[span.bucket];
  span.prev = kNone;
  span.next = head;
  if (head != kNone) spans_[head].prev = index;
  head = index;
  span.linked = true;
}

void Pool::unlink(Class& owner, SpanIndex index) noexcept {
  Span& span = spans_[index];
  if (!span.linked) return;
  (span.prev == kNone ? owner.heads[span.bucket] : spans_[span.prev].next) = span.next;
  if (span.next != kNone) spans_[span.next].prev = span.prev;
  span.linked = false;
}

std::uint64_t Pool::slack() const noexcept {
  std::uint64_t filled = 0;
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    filled += classes_[cls].allocated.load(std::memory_order_relaxed) * size_class(cls).stride;
  }
  const std::uint64_t used = arena_.used();
  return used > filled ? used - filled : 0;
}

void Pool::reset() noexcept {
  const RegionIndex end = arena_.region_end();
  span_memory_.release(0,
                       (std::uint64_t{end} * kSpansPerRegion * sizeof(Span) + 4095) / 4096 * 4096);
  for (Class& owner : classes_) {
    const base::MutexLock lock(owner.mutex);
    std::fill(std::begin(owner.heads), std::end(owner.heads), kNone);
    owner.allocated.store(0, std::memory_order_relaxed);
    owner.spans.store(0, std::memory_order_relaxed);
    owner.stuck = false;
  }
  arena_.reset();
}

bool Pool::check(std::uint64_t& objects) const noexcept {
  objects = 0;
  bool holds = arena_.check();
  std::array<std::uint64_t, kClassCount> allocated{}, spans{};
  for (SpanIndex index = 0; index < arena_.region_end() * kSpansPerRegion; ++index) {
    const Span& span = spans_[index];
    const State state = span.state.load(std::memory_order_acquire);
    if (state == State::free) continue;
    const ClassIndex cls = span.cls.load(std::memory_order_relaxed);
    const SizeClass& size = size_class(cls);
    std::uint32_t free = 0, end = 0;
    for (std::uint32_t position = 0; position < size.count; ++position) {
      const bool is_free = (bitmap(index)[position / 64] >> (position % 64) & 1U) != 0;
      free += is_free ? 1 : 0;
      if (!is_free) end = size.first + (position + 1) * size.stride;
    }
    holds = holds && end <= span.chunks * kChunkBytes && state == State::live &&
            free == span.free_count && free < size.count && span.linked == (free > 0);
    allocated[cls] += size.count - free;
    ++spans[cls];
  }
  for (std::uint32_t cls = 0; cls < kClassCount; ++cls) {
    holds = holds && allocated[cls] == classes_[cls].allocated.load(std::memory_order_relaxed) &&
            spans[cls] == classes_[cls].spans.load(std::memory_order_relaxed);
    objects += allocated[cls];
  }
  return holds;
}

}  // namespace uzram::pool
