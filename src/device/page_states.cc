// What can be told of each page, and the sweep that keeps its age true.
#include "device/paged_device.h"

namespace uzram::device {

std::size_t PagedDevice::page_states(std::uint64_t first_page, std::span<PageState> out) const {
  const auto context = contexts_.lease();  // so that no reset comes between
  if (!context) return 0;
  std::size_t count = 0;
  const std::uint64_t now = age_clock_.now();
  for (PageIndex page = first_page; count < out.size() && page <= (size_bytes() - 1) / kPageBytes;
       ++page) {
    Slot* slot = slots().find(page);
    if (slot == nullptr) {
      page = slots().next_present(page) - 1;
      continue;
    }
    if (slot->peek().kind() == Kind::empty) continue;
    const SlotWord word = slot->lock();
    PageState& state = out[count];
    state = {};
    state.page = page;
    state.age_seconds = Age::of(word.stamp(), now);
    state.same = word.is_fill();
    state.backed = word.is_backed();
    state.huge = word.kind() == Kind::raw;
    state.idle = word.idle();
    if (word.has_object()) {
      const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
      state.recompressed = header.codec() != 0;
      state.incompressible = header.incompressible();
    }
    slot->unlock(word);
    if (word.kind() != Kind::empty) ++count;
  }
  return count;
}

void PagedDevice::sweep_ages() noexcept {
  const std::uint64_t now = age_clock_.now();
  static_cast<void>(for_each_slot([now](Context&, Slot& slot) {
    const SlotWord word = slot.peek();
    if (word.kind() == Kind::empty) return true;
    const Stamp swept = Age::swept(word.stamp(), now);
    // Who holds or changes the slot at this moment uses it.
    if (swept != word.stamp()) static_cast<void>(slot.try_set_aside(word, word.restamped(swept)));
    return true;
  }));
}

}  // namespace uzram::device
