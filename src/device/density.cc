// How a paged device keeps its memory dense: compaction, reclaim at the limit, and the self-check.
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "device/paged_device.h"

namespace uzram::device {
namespace {

// Room in the pool that no object fills, as parts of 256 of the pool, at which the device acts.
constexpr std::uint64_t kRestingSlack = 2;  // 0.8 %
constexpr std::uint64_t kSparseSlack = 24;  // 9.4 %
constexpr std::uint64_t kUrgentSlack = 34;  // 13.3 %
// Below this, a span here and there matters more than any share.
constexpr std::uint64_t kSmallPool = std::uint64_t{16} << 20;
constexpr std::uint64_t kSmallSlack = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallRestingSlack = std::uint64_t{256} << 10;

std::uint64_t share(std::uint64_t used, std::uint64_t parts) {
  return std::max(used / 256 * parts, parts == kRestingSlack ? kSmallRestingSlack : kSmallSlack);
}

}  // namespace

bool PagedDevice::move(pool::ObjectRef from, pool::ObjectRef to, bool raw) noexcept {
  pool::Pool& pool = *parts_->pool;
  auto& from_header = raw ? pool.raw_header(from) : pool.packed_header(from);
  // The header may be of an object long gone, or about to change: it only says where to ask.
  Slot* slot = slots().by_id(ObjectHeader(from_header.load(std::memory_order_relaxed)).owner());
  SlotWord word;
  if (slot == nullptr || !slot->try_lock(word)) return false;
  const Kind kind = raw ? Kind::raw : Kind::packed;
  if (word != SlotWord(kind, from)) {
    slot->unlock(word);
    return false;
  }
  // Under the slot's lock the object is that page's, and its header is of the bytes that are there.
  const ObjectHeader header(from_header.load(std::memory_order_relaxed));
  if (raw) {
    std::memcpy(pool.raw_payload(to), pool.raw_payload(from), kPageBytes);
    pool.raw_header(to).store(header.bits(), std::memory_order_relaxed);
  } else {
    std::memcpy(pool.packed_payload(to), pool.packed_payload(from), header.bytes());
    pool.packed_header(to).store(header.bits(), std::memory_order_relaxed);
  }
  slot->unlock(SlotWord(kind, to).with_aside_of(word));
  return true;
}

Pressure PagedDevice::pressure() const noexcept {
  const std::uint64_t used = pool().arena().used();
  if (used < kSmallPool) return Pressure::none;
  const std::uint64_t slack = pool().slack();
  if (slack > share(used, kUrgentSlack)) return Pressure::urgent;
  return slack > share(used, kSparseSlack) ? Pressure::sparse : Pressure::none;
}

bool PagedDevice::compact_some(bool resting) noexcept {
  const auto context = contexts_.lease();
  return context && compact_within(*context, resting);
}

bool PagedDevice::compact_within(Context& context, bool resting) noexcept {
  // What the magazines hold can't be moved.
  pool().flush(context.cache);
  std::uint64_t moved = 0;
  const std::uint64_t target = share(pool().arena().used(), resting ? kRestingSlack : kSparseSlack);
  const pool::Step step = pool().compact_step(*this, target, resting, moved);
  context.counters.pages_compacted.add(moved);
  if (step == pool::Step::emptied) futile_slack_.store(0, std::memory_order_relaxed);
  return step != pool::Step::nothing;
}

void PagedDevice::help_compaction(Context& context, std::uint64_t pages) noexcept {
  constexpr std::uint64_t kLookEvery = 256;
  context.changed_pages += pages;
  if (context.changed_pages >= kLookEvery) {
    context.changed_pages = 0;
    maintenance_.set_urgent(pressure() == Pressure::urgent);
  }
  for (std::uint64_t step = 0; maintenance_.urgent() && step <= pages / kLookEvery; ++step) {
    if (pressure() != Pressure::urgent || !compact_within(context, false)) {
      maintenance_.set_urgent(false);
    }
  }
}

void PagedDevice::refresh() noexcept {
  contexts_.for_each_idle([this](Context& context) { pool().flush(context.cache); });
  pool().retry_all();
}

void PagedDevice::rest() noexcept {
  const base::MutexLock lock(rest_mutex_);
  refresh();
  // With a context, so that no reset comes between.
  const auto context = contexts_.lease();
  if (!context) return;
  pool().arena().release_spare();
  if (backing() != nullptr) backing()->discard_stale();
  fills().trim();
  slots().trim();
}

void PagedDevice::compact() noexcept {
  rest();
  while (compact_some(true)) {
  }
  rest();
}

void PagedDevice::reclaim(Context& context) noexcept {
  pool().flush(context.cache);
  contexts_.for_each_idle([this](Context& other) { pool().flush(other.cache); });
  const std::uint64_t slack = pool().slack();
  if (slack < futile_slack_.load(std::memory_order_relaxed) + 2 * pool::kSpanBytes) return;
  pool().retry_all();
  std::uint64_t moved = 0;
  pool::Step step = pool::Step::skipped;
  while (step == pool::Step::skipped) {
    step = pool().compact_step(*this, 2 * pool::kSpanBytes, false, moved);
  }
  context.counters.pages_compacted.add(moved);
  futile_slack_.store(step == pool::Step::emptied ? 0 : slack, std::memory_order_relaxed);
}

std::string PagedDevice::check() noexcept {
  std::string wrong;
  contexts_.exclude_all([this](Context& context) { pool().flush(context.cache); },
                        [&] { wrong = scan(); });
  return wrong;
}

namespace {

// What the slots say of the backing store, to be compared with what its table says.
class BackedCensus {
 public:
  explicit BackedCensus(BackingArea* area) : area_(area) {}
  void add(SlotWord word) {
    if (!word.is_backed()) return;
    const std::uint64_t block = BackingArea::block_of(word);
    ++live_[block];
    if (area_->blocks().goes_on(block, BackingArea::unit_of(word))) ++live_[block + 1];
  }
  std::string compare() const {
    if (area_ == nullptr) return {};
    std::uint64_t total = 0;
    for (const auto& [block, live] : live_) {
      total += live;
      if (area_->blocks().live(block) != live) {
        return "backing block " + std::to_string(block) + ": a wrong number of objects";
      }
    }
    return area_->blocks().live_total() == total ? "" : "backing blocks: live without a page";
  }

 private:
  BackingArea* const area_;
  std::unordered_map<std::uint64_t, std::uint64_t> live_;
};

}  // namespace

std::string PagedDevice::scan() noexcept {
  BackedCensus backed(backing());
  std::uint64_t stored = 0, packed = 0, same = 0, huge = 0, objects = 0, fills_seen = 0;
  std::string wrong;
  const PageIndex end = parts_->image.layout().device_bytes_max() / kPageBytes;
  for (PageIndex page = 0; page < end; ++page) {
    const Slot* slot = slots().find(page);
    if (slot == nullptr) {
      page = slots().next_present(page) - 1;
      continue;
    }
    const SlotWord word = slot->peek();
    if (slot->locked()) wrong = "slot " + std::to_string(page) + " is locked";
    if (word.kind() == Kind::empty) continue;
    if (page >= end_page()) wrong = "page " + std::to_string(page) + " is past the device's end";
    ++stored;
    same += word.is_fill() ? 1 : 0;
    fills_seen += word.kind() == Kind::fill_wide ? 1 : 0;
    huge += word.kind() == Kind::raw ? 1 : 0;
    backed.add(word);
    if (!word.has_object()) continue;
    ++objects;
    const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
    packed += header.bytes();
    if (header.owner() != slots().id(*slot)) {
      wrong = "object of page " + std::to_string(page) + " names another owner";
    }
  }
  const Stats now = stats();
  std::uint64_t allocated = 0;
  if (!pool().check(allocated)) return "pool: conservation law broken";
  const auto differ = [&](const char* name, std::uint64_t counted, std::uint64_t found) {
    if (counted != found) {
      wrong = std::string(name) + ": counted " + std::to_string(counted) + ", found " +
              std::to_string(found);
    }
  };
  differ("objects", allocated, objects);
  differ("stored pages", now.orig_data_size / kPageBytes, stored);
  differ("packed bytes", now.compr_data_size, packed);
  differ("same pages", now.same_pages, same);
  differ("huge pages", now.huge_pages, huge);
  differ("fill words", fills().used(), fills_seen);
  if (const std::string broken = backed.compare(); !broken.empty()) wrong = broken;
  return wrong;
}

}  // namespace uzram::device
