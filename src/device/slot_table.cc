#include "device/slot_table.h"

#include <bit>
#include <cstring>
#include <utility>

namespace uzram::device {

SlotTable::SlotTable(const Image& image, base::MemoryMap bitmaps)
    : image_(image),
      directory_(image.at<std::atomic<std::uint32_t>>(image.layout().directory_offset)),
      leaves_(image.at<Slot>(image.layout().leaves_offset)),
      leaves_id_(image.layout().leaves_offset / sizeof(Slot)),
      bitmap_memory_(std::move(bitmaps)),
      hints_(reinterpret_cast<std::atomic<std::uint64_t>*>(bitmap_memory_.data())),
      groups_(hints_ + image.layout().leaf_count * kHintWords) {}

Slot* SlotTable::take_leaf(PageIndex page) noexcept {
  const base::MutexLock lock(grow_mutex_);
  std::atomic<std::uint32_t>& entry = directory_[page / kLeafSlots];
  if (entry.load(std::memory_order_relaxed) == 0) {
    const std::uint64_t end = leaf_end_.load(std::memory_order_relaxed);
    if (end == image_.layout().leaf_count) return nullptr;
    leaf_end_.store(end + 1, std::memory_order_release);
    const std::uint64_t group = page / kLeafSlots / kGroupEntries;
    groups_[group / 64].fetch_or(std::uint64_t{1} << (group % 64), std::memory_order_release);
    entry.store(static_cast<std::uint32_t>(end + 1), std::memory_order_release);
  }
  return find(page);
}

PageIndex SlotTable::next_present(PageIndex page) const noexcept {
  const std::uint64_t entries = image_.layout().directory_entries;
  std::uint64_t entry = page / kLeafSlots + 1;
  while (entry < entries) {
    if (entry % kGroupEntries == 0) {
      std::uint64_t group = entry / kGroupEntries;
      std::uint64_t bits = groups_[group / 64].load(std::memory_order_acquire) >> (group % 64);
      while (bits == 0 && (group / 64 + 1) * 64 * kGroupEntries < entries) {
        group = (group / 64 + 1) * 64;
        bits = groups_[group / 64].load(std::memory_order_acquire);
      }
      if (bits == 0) break;
      entry = (group + static_cast<std::uint64_t>(std::countr_zero(bits))) * kGroupEntries;
      if (entry >= entries) break;
    }
    if (directory_[entry].load(std::memory_order_acquire) != 0) return entry * kLeafSlots;
    ++entry;
  }
  return entries * kLeafSlots;
}

void SlotTable::note_emptied(const Slot& slot) noexcept {
  const auto stretch = static_cast<std::uint64_t>(&slot - leaves_) / kStretchSlots;
  std::atomic<std::uint64_t>& word = hints_[stretch / 64];
  const std::uint64_t bit = std::uint64_t{1} << (stretch % 64);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  word.fetch_or(bit, std::memory_order_release);
}

void SlotTable::trim() noexcept {
  const std::uint64_t words = leaf_end_.load(std::memory_order_acquire) * kHintWords;
  for (std::uint64_t i = 0; i < words; ++i) {
    if (hints_[i].load(std::memory_order_relaxed) == 0) continue;
    for (std::uint64_t bits = hints_[i].exchange(0, std::memory_order_acquire); bits != 0;
         bits &= bits - 1) {
      trim_stretch((i * 64 + static_cast<std::uint64_t>(std::countr_zero(bits))) * kStretchSlots);
    }
  }
}

void SlotTable::trim_stretch(std::uint64_t first_slot) noexcept {
  Slot* slots = leaves_ + first_slot;
  for (std::uint64_t i = 0; i < kStretchSlots; ++i) {
    if (slots[i].locked() || slots[i].peek() != SlotWord()) return;
  }
  // Locked as empty, no slot can be written until the memory below it is gone and reads empty
  // again. All are only tried, so that this can't stand in anybody's way.
  std::uint64_t held = 0;
  while (held < kStretchSlots && slots[held].try_lock_empty()) ++held;
  if (held < kStretchSlots) {
    while (held > 0) slots[--held].unlock(SlotWord());
    return;
  }
  if (!image_.memory().release(image_.layout().leaves_offset + first_slot * sizeof(Slot),
                               kStretchSlots * sizeof(Slot))) {
    while (held > 0) slots[--held].unlock(SlotWord());
    return;
  }
  // The memory took with it the marks of those who fell asleep meanwhile.
  if (!Slot::anybody_sleeps()) return;
  for (std::uint64_t n = 0; n < kStretchSlots; ++n) slots[n].wake_all();
}

void SlotTable::reset() noexcept {
  const ImageLayout& layout = image_.layout();
  const std::uint64_t leaves = leaf_end_.exchange(0);
  const auto clear = [](const base::MemoryMap& memory, std::uint64_t offset, std::uint64_t length) {
    length = (length + 4095) / 4096 * 4096;
    if (!memory.release(offset, length)) std::memset(memory.data() + offset, 0, length);
  };
  clear(image_.memory(), layout.directory_offset, layout.directory_entries * 4);
  clear(image_.memory(), layout.leaves_offset, leaves * kLeafBytes);
  clear(bitmap_memory_, 0, bitmap_memory_.size());
}

std::uint64_t SlotTable::resident_bytes() const noexcept {
  return image_.memory().resident(image_.layout().leaves_offset,
                                  leaf_end_.load(std::memory_order_acquire) * kLeafBytes);
}

}  // namespace uzram::device
