#include "device/ram_device.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace uzram::device {

Result<std::unique_ptr<RamDevice>> RamDevice::create(const DeviceOptions& options) {
  auto parts = make_parts(options);
  if (!parts) return tl::unexpected(parts.error());
  return std::unique_ptr<RamDevice>(new RamDevice(options, std::move(*parts)));
}

RamDevice::RamDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts)
    : PagedDevice(options, std::move(parts),
                  [] { return std::unique_ptr<Context>(new (std::nothrow) Context); }) {
  start_maintenance();
}

RamDevice::~RamDevice() {
  stop_maintenance();
}

Status RamDevice::read_page(Context&, Slot& slot, PageOut out) noexcept {
  const SlotWord seen = slot.peek();
  if (!seen.has_object()) {
    expand_fill(seen, out);
    return Status::ok;
  }
  const SlotWord word = slot.lock();
  if (word.has_object()) {
    std::memcpy(out.data(), pool().raw_payload(word.object()), kPageBytes);
  } else {
    expand_fill(word, out);
  }
  slot.unlock(word);
  return Status::ok;
}

Status RamDevice::write_part(Context& context, Slot& slot, std::size_t at,
                             std::span<const std::byte> in) noexcept {
  for (bool reclaimed = false;; reclaimed = true) {
    const SlotWord old = slot.lock();
    if (old.has_object()) {
      std::copy(in.begin(), in.end(), pool().raw_payload(old.object()) + at);
      slot.unlock(old);
      return Status::ok;
    }
    SlotWord word;
    if (store_new(context, slot, at, in, word)) {
      count_in(context, word);
      slot.unlock(word);
      retire(context, old);
      return Status::ok;
    }
    slot.unlock(old);
    if (reclaimed) return Status::no_space;
    reclaim(context);
  }
}

// A page that held nothing; what `in` doesn't cover reads zero.
bool RamDevice::store_new(Context& context, const Slot& slot, std::size_t at,
                          std::span<const std::byte> in, SlotWord& word) noexcept {
  const pool::ObjectRef object = pool().allocate(context.cache, pool::kRawClass);
  if (object == pool::kNoObject) return false;
  std::byte* page = pool().raw_payload(object);
  std::memset(page, 0, at);
  std::copy(in.begin(), in.end(), page + at);
  std::memset(page + at + in.size(), 0, kPageBytes - at - in.size());
  word = SlotWord(Kind::raw, object);
  header_of(word).store(ObjectHeader(slots().id(slot), kPageBytes).bits(),
                        std::memory_order_relaxed);
  return true;
}

Status RamDevice::zero_part(Context& context, Slot& slot, std::size_t at,
                            std::size_t length) noexcept {
  const SlotWord old = slot.lock();
  if (!old.has_object()) {
    slot.unlock(old);
    return Status::ok;
  }
  std::byte* page = pool().raw_payload(old.object());
  std::memset(page + at, 0, length);
  const bool all_zero = page[0] == std::byte{0} && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
  slot.unlock(all_zero ? SlotWord() : old);
  if (all_zero) retire(context, old);
  return Status::ok;
}

Status RamDevice::write_pages(Context& context, PageIndex first, std::size_t count,
                              const std::byte* in) noexcept {
  if (count > 1 && limited() && !reserve_pages(context, first, count)) return Status::no_space;
  for (std::size_t i = 0; i < count; ++i) {
    Slot* slot = slot_to_write(first + i);
    if (slot == nullptr) return Status::no_space;
    const Status status = write_part(context, *slot, 0, {in + i * kPageBytes, kPageBytes});
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

// Makes every missing page of the range present, reading as before, so that writing them can't run
// out of room half-way; where one finds none, those that were made go again.
bool RamDevice::reserve_pages(Context& context, PageIndex first, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Slot* slot = slot_to_write(first + i);
    if (slot != nullptr && slot->peek().has_object()) continue;
    if (slot != nullptr && write_part(context, *slot, 0, {}) == Status::ok) continue;
    while (i > 0) {
      Slot* made = slot_to_write(first + --i);
      if (zero_part(context, *made, 0, 0) != Status::ok) break;
    }
    return false;
  }
  return true;
}

}  // namespace uzram::device
