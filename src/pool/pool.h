// The pool: where the bytes of pages live.
//
// What: objects of fixed size classes, cut out of spans, which the arena takes from the system. An
// object
//   has an 8-byte header, which is the owner's to use, and a payload.
//   Conservation, at rest: used spans = sum over classes of live spans; in each span
//   count = free bits + objects that are allocated (live, or in some magazine).
// Units: bytes; an ObjectRef is an offset into the image in units of 8 bytes, at the object's
// header for
//   packed objects and at the page itself for raw ones.
// Ownership: does not own the image; an object belongs to who allocated it until it is freed.
// Threading: every call from any thread; a Cache by one thread at a time. The fast path takes from
// and
//   gives to the cache's magazines; a magazine is refilled and flushed several objects at a time
//   under its class's mutex, which is never held over a system call.
// Errors: `allocate` gives kNoObject when neither the budget nor any larger class has room.
#ifndef UZRAM_POOL_POOL_H_
#define UZRAM_POOL_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory_map.h"
#include "base/mutex.h"
#include "pool/arena.h"
#include "pool/size_classes.h"

namespace uzram::pool {

enum class ObjectRef : std::uint64_t {};
inline constexpr ObjectRef kNoObject{0};
inline constexpr unsigned kObjectRefBits = 40;  // 8 TiB of image

// One thread's free objects.
class Cache {
 public:
  static constexpr std::uint32_t kMagazineObjects = 16;

 private:
  friend class Pool;
  struct Magazine {
    std::uint32_t count = 0;
    std::array<ObjectRef, kMagazineObjects> objects;
  };
  std::array<Magazine, kClassCount> magazines_;
};

// Moves one object for compaction: copies header and payload and makes the owner refer to `to`, or
// answers false when `from` isn't live or is held by somebody, and then neither object was changed.
class Mover {
 public:
  virtual bool move(ObjectRef from, ObjectRef to, bool raw) noexcept = 0;

 protected:
  ~Mover() = default;
};

enum class Step : std::uint8_t {
  nothing,  // dense enough, or no region is left to try
  skipped,  // a region or span could not be emptied
  emptied,
};

class Pool {
 public:
  struct Layout {
    std::uint64_t arena_offset = 0;        // in the image, multiple of the region size, above 0
    std::uint32_t regions = 0;             // 1 .. 2^21
    std::uint64_t raw_headers_offset = 0;  // raw_header_bytes(regions) of zeros
  };
  static std::uint64_t raw_header_bytes(std::uint32_t regions) noexcept;

  static Result<std::unique_ptr<Pool>> create(const base::MemoryMap& image, const Layout& layout,
                                              std::uint64_t limit_bytes);

  // Payload room is at least what the class was chosen for.
  [[nodiscard]] ObjectRef allocate(Cache& cache, ClassIndex cls) noexcept;
  void free(Cache& cache, ObjectRef object) noexcept;
  // Gives back all that the cache holds.
  void flush(Cache& cache) noexcept;
  // The object that `allocate` of that class would give next, to prefetch it; kNoObject if unknown.
  ObjectRef peek(const Cache& cache, ClassIndex cls) const noexcept {
    const auto& magazine = cache.magazines_[cls];
    return magazine.count > 0 ? magazine.objects[magazine.count - 1] : kNoObject;
  }

  std::byte* packed_payload(ObjectRef object) const noexcept { return at(object) + kHeaderBytes; }
  std::byte* raw_payload(ObjectRef object) const noexcept { return at(object); }
  std::atomic<std::uint64_t>& packed_header(ObjectRef object) const noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(at(object));
  }
  std::atomic<std::uint64_t>& raw_header(ObjectRef object) const noexcept {
    return raw_headers_[(offset(object) - arena_offset_) / kPageBytes];
  }
  // The class that the object was cut for, which may be above the one it was asked for.
  ClassIndex class_of(ObjectRef object) const noexcept {
    return spans_[span_of(object)].cls.load(std::memory_order_relaxed);
  }

  // With more than `slack_target` bytes of slack: empties the sparsest region into room that is
  // paid for already, and gives its memory back. When `resting`, first each half-empty span into a
  // small region, where it costs no more than it holds. What could not be emptied, because an
  // object was in a magazine or held, is left alone until `retry_all`. `moved` is raised by the
  // number of objects.
  Step compact_step(Mover& mover, std::uint64_t slack_target, bool resting,
                    std::uint64_t& moved) noexcept;
  void retry_all() noexcept;

  // used() less what allocated objects fill: room that compaction could win back.
  std::uint64_t slack() const noexcept;
  Arena& arena() noexcept { return arena_; }
  const Arena& arena() const noexcept { return arena_; }

  // Frees everything at once. No other call may be under way, and all caches must be dropped or
  // cleared by `forget`.
  void reset() noexcept;
  static void forget(Cache& cache) noexcept;

  // Recomputes the conservation law; false when it does not hold. At rest, with all caches flushed;
  // `objects` is set to the number of allocated objects.
  bool check(std::uint64_t& objects) const noexcept;

 private:
  enum class State : std::uint8_t { free, live, evacuating };
  static constexpr SpanIndex kNone = ~SpanIndex{0};
  static constexpr std::size_t kSkipMax = 64;
  static constexpr std::uint32_t kBuckets = 8;
  static constexpr std::uint32_t kBatch = Cache::kMagazineObjects / 2;

  // 24 bytes for 128 KiB, guarded by the class's mutex. What is atomic may be read without it:
  // `cls` doesn't change while the reader holds an object of the span, `state` only between live
  // and evacuating.
  struct Span {
    std::uint64_t free_bits;  // classes of at most 64 objects
    SpanIndex prev, next;
    std::atomic<std::uint16_t> free_count;
    std::atomic<ClassIndex> cls;
    std::atomic<State> state;
    std::uint8_t bucket;
    bool linked;
    std::uint8_t chunks;  // paid for, from its start; objects above are not handed out
  };
  static_assert(sizeof(Span) == 24);

  struct alignas(64) Class {
    mutable base::Mutex mutex;
    SpanIndex heads[kBuckets] UZRAM_GUARDED_BY(mutex) = {kNone, kNone, kNone, kNone,
                                                         kNone, kNone, kNone, kNone};
    std::atomic<std::uint64_t> allocated{
        0};                               // objects, those in magazines too; changed under mutex
    std::atomic<std::uint64_t> spans{0};  // changed under mutex
    bool stuck UZRAM_GUARDED_BY(mutex) = false;  // a span could not be emptied: until retry_all
  };

  Pool(const base::MemoryMap& image, const Layout& layout, std::uint64_t limit_bytes,
       base::MemoryMap region_table, base::MemoryMap span_table);

  std::byte* at(ObjectRef object) const noexcept { return base_ + offset(object); }
  static std::uint64_t offset(ObjectRef object) noexcept {
    return static_cast<std::uint64_t>(object) * 8;
  }
  SpanIndex span_of(ObjectRef object) const noexcept {
    return static_cast<SpanIndex>((offset(object) - arena_offset_) / kSpanBytes);
  }
  std::uint32_t position_in_span(ObjectRef object, const SizeClass& size) const noexcept {
    return (static_cast<std::uint32_t>((offset(object) - arena_offset_) % kSpanBytes) -
            size.first) /
           size.stride;
  }
  ObjectRef object_at(SpanIndex span, std::uint32_t position,
                      const SizeClass& size) const noexcept {
    return ObjectRef{(arena_offset_ + std::uint64_t{span} * kSpanBytes + size.first +
                      std::uint64_t{position} * size.stride) /
                     8};
  }
  std::uint64_t* bitmap(SpanIndex span) const noexcept;

  // Up to `wanted` objects of the class; fewer, or none, when there is no room.
  std::uint32_t take_objects(ClassIndex cls, ObjectRef* out, std::uint32_t wanted,
                             Room room) noexcept;
  std::uint32_t take_from_partial(Class& owner, ClassIndex cls, ObjectRef* out,
                                  std::uint32_t wanted) noexcept UZRAM_REQUIRES(owner.mutex);
  std::uint32_t take_from_span(SpanIndex span, const SizeClass& size, ObjectRef* out,
                               std::uint32_t wanted) noexcept;
  bool pay_for(SpanIndex span, std::uint32_t end) noexcept;
  void give_objects(ClassIndex cls, const ObjectRef* objects, std::uint32_t count) noexcept;
  void open_span(Class& owner, TakenSpan taken, ClassIndex cls) noexcept
      UZRAM_REQUIRES(owner.mutex);
  void link(Class& owner, SpanIndex span) noexcept UZRAM_REQUIRES(owner.mutex);
  void unlink(Class& owner, SpanIndex span) noexcept UZRAM_REQUIRES(owner.mutex);
  ObjectRef allocate_slow(Cache& cache, ClassIndex cls) noexcept;

  // compaction.cc
  struct Evacuation;
  Step empty_one_tail(Mover& mover, std::uint64_t& moved) noexcept;
  SpanIndex seize_tail(Class& owner, const SizeClass& size) noexcept;
  bool sparsest_region(RegionIndex& region, std::uint64_t unfilled_min) noexcept;
  std::uint64_t unfilled_bytes(RegionIndex region) const noexcept;
  bool seize_span(SpanIndex span) noexcept;
  bool empty_span(SpanIndex span, Evacuation& evacuation) noexcept;
  void settle_span(SpanIndex span) noexcept;
  bool evacuate(RegionIndex region, Evacuation& evacuation) noexcept;
  void give_room(Evacuation& evacuation) noexcept;

  std::byte* const base_;
  const std::uint64_t arena_offset_;
  std::atomic<std::uint64_t>* const raw_headers_;
  base::MemoryMap span_memory_;  // lazily taken; all zero is a free span
  Span* const spans_;
  Arena arena_;
  std::array<Class, kClassCount> classes_;
  base::Mutex skip_mutex_;
  std::vector<RegionIndex> skip_ UZRAM_GUARDED_BY(skip_mutex_);  // at most kSkipMax
};

}  // namespace uzram::pool

#endif  // UZRAM_POOL_POOL_H_
