#include "device/paged_device.h"

#include <algorithm>
#include <cstring>

namespace uzram::device {
namespace {

// Requests whose slots and objects are prefetched together.
constexpr std::size_t kWindow = 64;
// Pages that a long read or write looks ahead.
constexpr std::uint64_t kAhead = 4;

constexpr std::uint64_t kUnitMask = kPageBytes - 1;

}  // namespace

Result<std::unique_ptr<PagedDevice::Parts>> PagedDevice::make_parts(const DeviceOptions& options) {
  auto parts = std::make_unique<Parts>();
  auto image = Image::create(options.size_bytes);
  if (!image) return tl::unexpected(image.error());
  parts->image = std::move(*image);
  const ImageLayout& layout = parts->image.layout();
  auto bitmaps = base::MemoryMap::reserve(SlotTable::bitmap_bytes(layout));
  if (!bitmaps) return tl::unexpected(bitmaps.error());
  parts->slots = std::make_unique<SlotTable>(parts->image, std::move(*bitmaps));
  parts->fills = std::make_unique<FillTable>(parts->image);
  auto pool = pool::Pool::create(
      parts->image.memory(), {layout.arena_offset, layout.region_count, layout.raw_headers_offset},
      options.mem_limit_bytes);
  if (!pool) return tl::unexpected(pool.error());
  parts->pool = std::move(*pool);
  if (options.backing) {
    auto backing = BackingArea::create(options.backing);
    if (!backing) return tl::unexpected(backing.error());
    parts->backing = std::move(*backing);
  }
  return parts;
}

PagedDevice::PagedDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts,
                         ContextSet::Maker maker)
    : options_(options),
      parts_(std::move(parts)),
      contexts_(std::move(maker)),
      maintenance_(*this) {}

PagedDevice::~PagedDevice() = default;

void PagedDevice::submit(std::span<Request> batch) noexcept {
  while (!batch.empty()) {
    batch = batch.subspan(run_until_blocked(batch));
    if (batch.empty()) break;
    batch.front().status = run_waiting(batch.front());
    batch = batch.subspan(1);
  }
}

std::size_t PagedDevice::run_until_blocked(std::span<Request> batch) noexcept {
  const auto context = contexts_.lease();
  if (!context) {
    for (Request& request : batch) request.status = Status::no_memory;
    return batch.size();
  }
  context->now = Age::stamp(age_clock_.now());
  for (std::size_t done = 0; done < batch.size();) {
    const auto window = batch.subspan(done, std::min(batch.size() - done, kWindow));
    if (window.size() > 1) prefetch(window);
    for (Request& request : window) {
      request.status = run(*context, request);
      if (request.status == Status::would_block && (request.flags & kNoWait) == 0) return done;
      if (request.status == Status::ok) count(*context, request);
      ++done;
    }
  }
  return batch.size();
}

void PagedDevice::prefetch(std::span<const Request> batch) const noexcept {
  for (const Request& request : batch) {
    if (check_range(request) != Status::ok) continue;
    if (const Slot* slot = slots().find(request.offset / kPageBytes)) __builtin_prefetch(slot, 1);
  }
  for (const Request& request : batch) {
    if (check_range(request) != Status::ok) continue;
    if (const Slot* slot = slots().find(request.offset / kPageBytes)) prefetch_object(slot->peek());
  }
}

void PagedDevice::prefetch_object(SlotWord word) const noexcept {
  if (!word.has_object()) return;
  if (word.kind() == Kind::raw) __builtin_prefetch(&pool().raw_header(word.object()));
  const std::byte* at = pool().raw_payload(word.object());
  // The first lines; the processor's own prefetcher takes over from there.
  for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(at + line * 64);
}

Status PagedDevice::check_range(const Request& request) const noexcept {
  if (request.op == Op::flush) return Status::ok;
  const std::uint64_t size = size_bytes();
  return request.offset <= size && request.length <= size - request.offset ? Status::ok
                                                                           : Status::out_of_range;
}

Status PagedDevice::run(Context& context, const Request& request) noexcept {
  if (request.op == Op::flush) return Status::ok;  // what is acknowledged is stored
  Status status = check_range(request);
  if (status == Status::ok && request.op != Op::read && options_.read_only) {
    status = Status::read_only;
  }
  if (status != Status::ok) {
    context.counters.invalid_io.add(1);
    return status;
  }
  if (request.length == 0) return Status::ok;
  if (request.op == Op::read) {
    status = read(context, request);
    if (status != Status::ok && status != Status::would_block) {
      context.counters.failed_reads.add(1);
    }
    return status;
  }
  if (backing() != nullptr && must_fetch(context, request)) return Status::would_block;
  maintenance_.touch();
  help_compaction(context, request.length / kPageBytes + 1);
  status = request.op == Op::write ? write(context, request) : zero(context, request);
  maintenance_.touch();  // a long request may outlast the rest that the first touch leads to
  if (status != Status::ok && status != Status::would_block) {
    context.counters.failed_writes.add(1);
  }
  return status;
}

void PagedDevice::count(Context& context, const Request& request) noexcept {
  Counters& counters = context.counters;
  switch (request.op) {
    case Op::read:
      counters.reads.add(1);
      counters.read_bytes.add(request.length);
      break;
    case Op::write:
      counters.writes.add(1);
      counters.write_bytes.add(request.length);
      break;
    case Op::discard:
    case Op::write_zeroes:
      counters.discards.add(1);
      counters.discard_bytes.add(request.length);
      break;
    case Op::flush:
      counters.flushes.add(1);
      break;
  }
}

Status PagedDevice::read(Context& context, const Request& request) noexcept {
  std::byte* out = request.data;
  std::uint64_t at = request.offset;
  const std::uint64_t end = request.offset + request.length;
  while (at < end) {
    const PageIndex page = at / kPageBytes;
    const std::uint64_t part = std::min(end, (page + 1) * kPageBytes) - at;
    if (end - at > kAhead * kPageBytes) {
      if (const Slot* ahead = slots().find(page + kAhead - 1)) prefetch_object(ahead->peek());
    }
    Slot* slot = slots().find(page);
    Status status = Status::ok;
    if (slot == nullptr) {
      std::memset(out, 0, part);
    } else if (part == kPageBytes) {
      status = read_page(context, *slot, PageOut(out, kPageBytes));
    } else {
      status = read_part(context, *slot, at & kUnitMask, {out, part});
    }
    if (status != Status::ok) return status;
    out += part;
    at += part;
  }
  return Status::ok;
}

Status PagedDevice::read_part(Context& context, Slot& slot, std::size_t at,
                              std::span<std::byte> out) noexcept {
  const Status status = read_page(context, slot, context.page);
  if (status == Status::ok) std::memcpy(out.data(), context.page.data() + at, out.size());
  return status;
}

Status PagedDevice::write(Context& context, const Request& request) noexcept {
  const std::byte* in = request.data;
  std::uint64_t at = request.offset;
  const std::uint64_t end = request.offset + request.length;
  while (at < end) {
    const PageIndex page = at / kPageBytes;
    const std::uint64_t whole = (at & kUnitMask) == 0 ? (end - at) / kPageBytes : 0;
    std::uint64_t part = whole * kPageBytes;
    Status status = Status::ok;
    if (whole > 0) {
      status = write_pages(context, page, whole, in);
    } else {
      part = std::min(end, (page + 1) * kPageBytes) - at;
      Slot* slot = slot_to_write(page);
      status = slot == nullptr ? Status::no_space
                               : write_part(context, *slot, at & kUnitMask, {in, part});
    }
    if (status != Status::ok) return status;
    in += part;
    at += part;
  }
  return Status::ok;
}

// Discard and write-zeroes: whole pages drop their objects, edges are zeroed to the byte. A discard
// is advice: an edge that can't be stored, for want of memory, or not be read, keeps its bytes.
Status PagedDevice::zero(Context& context, const Request& request) noexcept {
  const bool is_discard = request.op == Op::discard;
  const bool keep = !is_discard && (request.flags & kNoHole) != 0;
  const SlotWord word = keep ? SlotWord(Kind::fill, 0) : SlotWord();
  const std::uint64_t end = request.offset + request.length;
  const PageIndex first = request.offset / kPageBytes;
  const PageIndex last = end / kPageBytes;
  const std::size_t head = request.offset & kUnitMask;
  // The last page of a device may be short; zeroed to its end, it is whole.
  const std::size_t tail = end == size_bytes() ? 0 : end & kUnitMask;
  const PageIndex whole_end = end == size_bytes() ? (end + kUnitMask) / kPageBytes : last;
  if (head != 0) {
    const std::size_t length = std::min<std::uint64_t>(kPageBytes - head, request.length);
    const Status status = zero_edge(context, first, head, length, is_discard);
    if (status != Status::ok || end <= (first + 1) * kPageBytes) return status;
  }
  const PageIndex whole_first = head != 0 ? first + 1 : first;
  if (whole_first < whole_end) {
    const Status status = zero_pages(context, whole_first, whole_end, word, is_discard);
    if (status != Status::ok) return status;
  }
  return tail != 0 ? zero_edge(context, last, 0, tail, is_discard) : Status::ok;
}

Status PagedDevice::zero_pages(Context& context, PageIndex first, PageIndex end, SlotWord word,
                               bool is_discard) noexcept {
  for (PageIndex page = first; page < end; ++page) {
    Slot* slot = word == SlotWord() ? slots().find(page) : slot_to_write(page);
    if (slot == nullptr) {
      if (word != SlotWord()) return Status::no_space;
      page = slots().next_present(page) - 1;
      continue;
    }
    if (slot->peek() == word) continue;
    count_in(context, word);
    const SlotWord old = slot->replace(word.used(context.now));
    if (is_discard && old.kind() != Kind::empty) context.counters.notify_free.add(1);
    retire(context, old);
    if (word == SlotWord()) slots().note_emptied(*slot);
  }
  return Status::ok;
}

Status PagedDevice::zero_edge(Context& context, PageIndex page, std::size_t at, std::size_t length,
                              bool is_discard) noexcept {
  Slot* slot = slots().find(page);
  if (slot == nullptr || reads_zero(slot->peek())) return Status::ok;
  const Status status = zero_part(context, *slot, at, length);
  if (slot->peek() == SlotWord()) slots().note_emptied(*slot);
  const bool keeps = status == Status::no_space || status == Status::io_error;
  return is_discard && keeps ? Status::ok : status;
}

void PagedDevice::expand_fill(SlotWord word, PageOut out) const noexcept {
  std::uint64_t pattern = 0;
  if (word.kind() == Kind::fill) pattern = word.payload() << 32 | word.payload();
  if (word.kind() == Kind::fill_wide) pattern = fills().get(word.payload());
  if (pattern == 0) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  for (std::size_t i = 0; i < out.size(); i += sizeof pattern) {
    std::memcpy(out.data() + i, &pattern, sizeof pattern);
  }
}

void PagedDevice::count_in(Context& context, SlotWord word) noexcept {
  if (word.kind() == Kind::empty) return;
  Counters& counters = context.counters;
  counters.stored_pages.add(1);
  if (word.is_fill()) counters.same_pages.add(1);
  if (word.has_object()) {
    counters.packed_bytes.add(
        ObjectHeader(header_of(word).load(std::memory_order_relaxed)).bytes());
  }
  if (word.kind() == Kind::raw) {
    counters.huge_pages.add(1);
    counters.huge_pages_since.add(1);
  }
}

void PagedDevice::retire(Context& context, SlotWord word) noexcept {
  if (word.kind() == Kind::empty) return;
  Counters& counters = context.counters;
  counters.stored_pages.sub(1);
  if (word.is_fill()) counters.same_pages.sub(1);
  if (word.kind() == Kind::raw) counters.huge_pages.sub(1);
  if (word.has_object()) {
    counters.packed_bytes.sub(
        ObjectHeader(header_of(word).load(std::memory_order_relaxed)).bytes());
  }
  release(context, word);
}

void PagedDevice::release(Context& context, SlotWord word) noexcept {
  if (word.kind() == Kind::fill_wide) fills().give(word.payload());
  if (word.has_object()) pool().free(context.cache, word.object());
  if (word.is_backed()) backing()->give(word);
}

std::size_t PagedDevice::extents(std::uint64_t offset, std::uint64_t length,
                                 std::span<Extent> out) const noexcept {
  constexpr std::uint64_t kStepsMax = std::uint64_t{1} << 20;
  const auto context = contexts_.lease();  // until then the size may change
  if (!context || length == 0 || out.empty()) return 0;
  if (offset > size_bytes() || length > size_bytes() - offset) return 0;
  std::size_t count = 0;
  const std::uint64_t end = offset + length;
  for (std::uint64_t step = 0; offset < end && step < kStepsMax; ++step) {
    const PageIndex page = offset / kPageBytes;
    const Slot* slot = slots().find(page);
    const PageIndex next_page = slot == nullptr ? slots().next_present(page) : page + 1;
    const std::uint64_t next = next_page > end / kPageBytes ? end : next_page * kPageBytes;
    const SlotWord word = slot == nullptr ? SlotWord() : slot->peek();
    // Under a limit a same-filled page may find no room when it is overwritten: that is what a hole
    // means.
    const bool hole = word.kind() == Kind::empty || (word.is_fill() && limited());
    const bool zero = reads_zero(word);
    if (count > 0 && out[count - 1].hole == hole && out[count - 1].zero == zero) {
      out[count - 1].length += next - offset;
    } else {
      if (count == out.size()) break;
      out[count++] = {next - offset, hole, zero};
    }
    offset = next;
  }
  return count;
}

void PagedDevice::reset() noexcept {
  contexts_.exclude_all(
      [](Context& context) {
        pool::Pool::forget(context.cache);
        context.counters.clear();
      },
      [this] {
        slots().reset();
        fills().reset();
        pool().reset();
        if (backing() != nullptr) backing()->reset();
        futile_slack_.store(0, std::memory_order_relaxed);
      });
}

Stats PagedDevice::stats() const noexcept {
  const auto sum = [this](Counter Counters::*counter) { return contexts_.sum(counter); };
  // A page may be counted out in a context that is read after the one that counted it in.
  const auto live = [&](Counter Counters::*counter) {
    const std::uint64_t total = sum(counter);
    return total >> 63 == 0 ? total : 0;
  };
  Stats stats;
  stats.orig_data_size = live(&Counters::stored_pages) * kPageBytes;
  stats.compr_data_size = live(&Counters::packed_bytes);
  stats.mem_used_total = pool().arena().used();
  stats.mem_limit = pool().arena().limit();
  stats.mem_used_max = std::max(pool().arena().used_max(), stats.mem_used_total);
  stats.same_pages = live(&Counters::same_pages);
  stats.pages_compacted = sum(&Counters::pages_compacted);
  stats.huge_pages = live(&Counters::huge_pages);
  stats.huge_pages_since = sum(&Counters::huge_pages_since);
  stats.failed_reads = sum(&Counters::failed_reads);
  stats.failed_writes = sum(&Counters::failed_writes);
  stats.invalid_io = sum(&Counters::invalid_io);
  stats.notify_free = sum(&Counters::notify_free);
  if (const BackingArea* area = backing(); area != nullptr) {
    stats.bd_count = area->blocks().used();
    stats.bd_reads = area->reads();
    stats.bd_writes = area->writes();
  }
  stats.reads = sum(&Counters::reads);
  stats.read_bytes = sum(&Counters::read_bytes);
  stats.writes = sum(&Counters::writes);
  stats.write_bytes = sum(&Counters::write_bytes);
  stats.discards = sum(&Counters::discards);
  stats.discard_bytes = sum(&Counters::discard_bytes);
  stats.flushes = sum(&Counters::flushes);
  const ImageLayout& layout = parts_->image.layout();
  const std::uint64_t headers = pool::Pool::raw_header_bytes(pool().arena().region_end());
  stats.metadata_bytes = slots().resident_bytes() + fills().resident_bytes() +
                         parts_->image.memory().resident(layout.raw_headers_offset, headers);
  stats.huge_page_bytes = pool().arena().huge_bytes();
  return stats;
}

void PagedDevice::set_mem_limit(std::uint64_t bytes) noexcept {
  pool().arena().set_limit(bytes);
}

}  // namespace uzram::device
