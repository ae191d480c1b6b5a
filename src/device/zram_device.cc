#include "device/zram_device.h"

#include <cstring>
#include <new>
#include <optional>

namespace uzram::device {
namespace {

// Whether the page is one 8-byte word repeated. Ends early where first and last word differ.
bool is_same_filled(PageIn page, std::uint64_t& pattern) {
  std::uint64_t last = 0;
  std::memcpy(&pattern, page.data(), sizeof pattern);
  std::memcpy(&last, page.data() + page.size() - sizeof last, sizeof last);
  return pattern == last &&
         std::memcmp(page.data(), page.data() + sizeof pattern, page.size() - sizeof pattern) == 0;
}

// Pages of a request that a context keeps the room for: a request of 32 MiB.
constexpr std::size_t kPreparedKept = 8192;

void prefetch_for_write(const std::byte* at, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(at + line, 1);
}

}  // namespace

Result<ZramDevice::ChosenCodec> ZramDevice::choose(const CodecChoice& choice) {
  const codec::Codec* codec = codec::find(choice.name);
  if (codec == nullptr) {
    std::string known;
    for (const codec::Codec* each : codec::registry()) {
      known += (known.empty() ? "" : ", ") + each->info().name;
    }
    return fail(Status::invalid_argument, "codec '" + choice.name + "': not one of " + known);
  }
  auto options = codec::check_params(*codec, choice.params);
  if (!options) return tl::unexpected(options.error());
  return ChosenCodec{codec, std::move(*options)};
}

Result<std::unique_ptr<ZramDevice>> ZramDevice::create(const DeviceOptions& options) {
  Codecs codecs;
  // By their own names, whatever names were taken for them.
  DeviceOptions named = options;
  auto first = choose({options.codec, options.params});
  if (!first) return tl::unexpected(first.error());
  named.codec = first->codec->info().name;
  codecs[0] = std::move(*first);
  for (std::size_t i = 0; i < named.recompress_codecs.size(); ++i) {
    auto& choice = named.recompress_codecs[i];
    if (!choice) continue;
    auto other = choose(*choice);
    if (!other) return tl::unexpected(other.error());
    choice->name = other->codec->info().name;
    codecs[i + 1] = std::move(*other);
  }
  auto parts = make_parts(named);
  if (!parts) return tl::unexpected(parts.error());
  return std::unique_ptr<ZramDevice>(new ZramDevice(named, std::move(*parts), std::move(codecs)));
}

ZramDevice::ZramDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts, Codecs codecs)
    : PagedDevice(options, std::move(parts),
                  [this]() -> std::unique_ptr<Context> {
                    auto context = std::unique_ptr<Context>(new (std::nothrow) Context);
                    if (context && stream(*context, 0) == nullptr) context.reset();
                    return context;
                  }),
      codecs_(std::move(codecs)),
      budget_(options.write_back) {
  start_maintenance();
}

codec::Stream* ZramDevice::stream(Context& context, unsigned priority) const noexcept {
  std::unique_ptr<codec::Stream>& kept = context.streams[priority];
  const ChosenCodec& chosen = codecs_[priority];
  if (!kept && chosen.codec != nullptr) {
    try {
      if (auto made = chosen.codec->make_stream(chosen.options)) kept = std::move(*made);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  return kept.get();
}

ZramDevice::~ZramDevice() {
  stop_maintenance();
}

Status ZramDevice::write_page(Context& context, Slot& slot, PageIn in) noexcept {
  prefetch_object(slot.peek());
  const Packing packing = pack(context, in);
  std::optional<SlotWord> word = make_word(context, slot, packing);
  if (!word) {
    if (write_over(context, slot, in, packing)) return Status::ok;
    reclaim(context);
    word = make_word(context, slot, packing);
    if (!word) return Status::no_space;
  }
  publish(context, slot, *word);
  return Status::ok;
}

Status ZramDevice::read_page(Context& context, Slot& slot, PageOut out) noexcept {
  const SlotWord seen = slot.peek();
  if (seen.kind() == Kind::empty || seen.kind() == Kind::fill) {
    expand_fill(seen, out);
    return Status::ok;
  }
  const SlotWord word = slot.lock();
  const Status status = load(context, slot, word, out);
  slot.unlock(status == Status::would_block ? word : word.used(context.now));
  return status;
}

ZramDevice::Packing ZramDevice::pack(Context& context, PageIn in) noexcept {
  Packing packing;
  if (is_same_filled(in, packing.pattern)) {
    const bool narrow = packing.pattern >> 32 == (packing.pattern & 0xffffffffU);
    packing.kind = narrow ? Kind::fill : Kind::fill_wide;
    if (narrow) return packing;
    // With all fill words in use, for the old and the new of many pages, the codec serves as well.
    if (const auto index = fills().take(packing.pattern)) {
      packing.pattern = *index;
      return packing;
    }
  }
  const std::size_t size = context.streams[0]->pack(in, context.packed);
  if (size == 0 || size > pool::kPackedBytesMax) {
    packing.kind = Kind::raw;
    packing.bytes = in;
  } else {
    packing.kind = Kind::packed;
    packing.bytes = {context.packed.data(), size};
  }
  return packing;
}

// The word that stores the page, with a filled object of its own; none where there is no room.
std::optional<SlotWord> ZramDevice::make_word(Context& context, const Slot& slot,
                                              const Packing& packing) noexcept {
  if (packing.kind == Kind::fill) return SlotWord(Kind::fill, packing.pattern & 0xffffffffU);
  if (packing.kind == Kind::fill_wide) return SlotWord(Kind::fill_wide, packing.pattern);
  const auto bytes = static_cast<std::uint32_t>(packing.bytes.size());
  const pool::ClassIndex cls =
      packing.kind == Kind::raw ? pool::kRawClass : pool::class_of_packed(bytes);
  const pool::ObjectRef object = pool().allocate(context.cache, cls);
  if (object == pool::kNoObject) return std::nullopt;
  const SlotWord word(packing.kind, object);
  fill_object(word, slot, packing);
  const pool::ObjectRef next = pool().peek(context.cache, cls);
  if (next != pool::kNoObject) prefetch_for_write(pool().raw_payload(next), bytes);
  return word;
}

void ZramDevice::fill_object(SlotWord word, const Slot& slot, const Packing& packing) noexcept {
  const auto bytes = static_cast<std::uint32_t>(packing.bytes.size());
  std::byte* payload = word.kind() == Kind::raw ? pool().raw_payload(word.object())
                                                : pool().packed_payload(word.object());
  std::memcpy(payload, packing.bytes.data(), bytes);
  header_of(word).store(ObjectHeader(slots().id(slot), bytes, packing.codec).bits(),
                        std::memory_order_relaxed);
}

// With the slot's lock, or of an object that no other thread can reach.
Status ZramDevice::load(Context& context, const Slot& slot, SlotWord word, PageOut out) noexcept {
  if (word.is_backed()) return load_backed(context, slot, word, out);
  if (!word.has_object()) {
    expand_fill(word, out);
    return Status::ok;
  }
  const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
  if (header.owner() != slots().id(slot)) return Status::io_error;
  if (word.kind() == Kind::raw) {
    std::memcpy(out.data(), pool().raw_payload(word.object()), kPageBytes);
    return Status::ok;
  }
  return unpack(context, header.codec(), {pool().packed_payload(word.object()), header.bytes()},
                out);
}

Status ZramDevice::load_backed(Context& context, const Slot& slot, SlotWord word,
                               PageOut out) noexcept {
  if (context.fetched == nullptr) return Status::would_block;
  const Fetched::Page* const page =
      context.fetched->find(slots().id(slot), word, backing()->check_of(word));
  if (page == nullptr) return Status::would_block;
  if (page->status != Status::ok) return page->status;
  if (word.kind() == Kind::backed_raw) {
    std::memcpy(out.data(), page->bytes.data(), kPageBytes);
    return Status::ok;
  }
  return unpack(context, page->codec, page->bytes, out);
}

Status ZramDevice::unpack(Context& context, unsigned codec, std::span<const std::byte> packed,
                          PageOut out) noexcept {
  if (codec >= context.streams.size()) return Status::io_error;
  codec::Stream* const unpacker = stream(context, codec);
  if (unpacker == nullptr) return Status::no_memory;
  return unpacker->unpack(packed, out) ? Status::ok : Status::io_error;
}

bool ZramDevice::fits_over(SlotWord old, const Packing& packing) const noexcept {
  if (old.kind() == Kind::raw) return true;
  return old.kind() == Kind::packed && packing.kind == Kind::packed &&
         packing.bytes.size() + pool::kHeaderBytes <= stride_of(old);
}

// Stores a page in its old object's place, with the slot's lock: what a full device still can do.
void ZramDevice::store_over(Context& context, const Slot& slot, SlotWord old, PageIn in,
                            const Packing& packing) noexcept {
  Counters& counters = context.counters;
  Packing as_old = packing;
  if (old.kind() == Kind::raw) {
    as_old.kind = Kind::raw;
    as_old.bytes = in;
    counters.huge_pages_since.add(1);
  }
  counters.packed_bytes.sub(ObjectHeader(header_of(old).load(std::memory_order_relaxed)).bytes());
  fill_object(old, slot, as_old);
  counters.packed_bytes.add(as_old.bytes.size());
}

bool ZramDevice::write_over(Context& context, Slot& slot, PageIn in,
                            const Packing& packing) noexcept {
  const SlotWord old = slot.lock();
  const bool fits = fits_over(old, packing);
  if (fits) store_over(context, slot, old, in, packing);
  slot.unlock(fits ? old.used(context.now) : old);
  return fits;
}

// Read, change, write as one step: the slot stays locked, so that two writers of one page both
// last.
template <typename Change>
Status ZramDevice::change_part(Context& context, Slot& slot, Change change) noexcept {
  for (bool reclaimed = false;; reclaimed = true) {
    const SlotWord old = slot.lock();
    const Status status = load(context, slot, old, context.page);
    if (status != Status::ok) {
      slot.unlock(old);
      return status;
    }
    const Packing packing = change(context.page);
    const auto word = packing.kind == Kind::empty ? SlotWord() : make_word(context, slot, packing);
    if (word) {
      count_in(context, *word);
      slot.unlock(word->used(context.now));
      retire(context, old);
      return Status::ok;
    }
    const bool fits = fits_over(old, packing);
    if (fits) store_over(context, slot, old, context.page, packing);
    slot.unlock(fits ? old.used(context.now) : old);
    if (fits) return Status::ok;
    if (reclaimed) return Status::no_space;
    reclaim(context);
  }
}

Status ZramDevice::write_part(Context& context, Slot& slot, std::size_t at,
                              std::span<const std::byte> in) noexcept {
  return change_part(context, slot, [&](std::array<std::byte, kPageBytes>& page) {
    std::memcpy(page.data() + at, in.data(), in.size());
    return pack(context, page);
  });
}

Status ZramDevice::zero_part(Context& context, Slot& slot, std::size_t at,
                             std::size_t length) noexcept {
  return change_part(context, slot, [&](std::array<std::byte, kPageBytes>& page) {
    std::memset(page.data() + at, 0, length);
    Packing packing = pack(context, page);
    if (packing.kind == Kind::fill && packing.pattern == 0) packing.kind = Kind::empty;
    return packing;
  });
}

Status ZramDevice::write_pages(Context& context, PageIndex first, std::size_t count,
                               const std::byte* in) noexcept {
  if (count > 1 && limited()) return write_all_or_none(context, first, count, in);
  for (std::size_t i = 0; i < count; ++i) {
    Slot* slot = slot_to_write(first + i);
    if (slot == nullptr) return Status::no_space;
    const Status status = write_page(context, *slot, PageIn(in + i * kPageBytes, kPageBytes));
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

// Stores all pages before it publishes the first, so that one that finds no room changes nothing.
Status ZramDevice::write_all_or_none(Context& context, PageIndex first, std::size_t count,
                                     const std::byte* in) noexcept {
  std::vector<Prepared>& prepared = context.prepared;
  try {
    prepared.assign(count, {});
  } catch (const std::bad_alloc&) {
    return Status::no_memory;
  }
  const auto page = [in](std::size_t i) { return PageIn(in + i * kPageBytes, kPageBytes); };
  for (std::size_t i = 0; i < count; ++i) {
    Slot* slot = slot_to_write(first + i);
    if (slot == nullptr || !prepare(context, *slot, page(i), prepared[i])) {
      while (i > 0) release(context, prepared[--i].word);
      return Status::no_space;
    }
  }
  Status status = Status::ok;
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = *slot_to_write(first + i);
    if (!prepared[i].over_old) {
      publish(context, slot, prepared[i].word);
    } else if (write_page(context, slot, page(i)) != Status::ok) {
      status = Status::no_space;  // another writer changed what was there
    }
  }
  if (prepared.capacity() > kPreparedKept) std::vector<Prepared>().swap(prepared);
  return status;
}

bool ZramDevice::prepare(Context& context, Slot& slot, PageIn in, Prepared& prepared) noexcept {
  const Packing packing = pack(context, in);
  auto word = make_word(context, slot, packing);
  if (!word && !fits_over(slot.peek(), packing)) {
    reclaim(context);
    word = make_word(context, slot, packing);
    if (!word) return false;
  }
  prepared = {word.value_or(SlotWord()), !word};
  return true;
}

}  // namespace uzram::device
