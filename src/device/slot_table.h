// The slots of all pages of a device.
//
// What: a directory of leaves; a leaf is made when a page of its GiB is first written. Memory
// follows what was
//   written, 4 KiB of slots at a time, and is given back when all pages of such a stretch are
//   empty.
// Units: pages are counted from the start of the device. A SlotId is a slot's place in the image in
// units of
//   8 bytes, which is what an object's header names its owner by.
// Ownership: of nothing but its hints; the slots live in the image.
// Threading: any, but for reset, which excludes all else. Errors: `take` gives nullptr when the
// room for
//   leaves is used up.
#ifndef UZRAM_DEVICE_SLOT_TABLE_H_
#define UZRAM_DEVICE_SLOT_TABLE_H_

#include <atomic>
#include <cstdint>

#include "base/memory_map.h"
#include "base/mutex.h"
#include "device/image.h"
#include "device/slot.h"

namespace uzram::device {

using PageIndex = std::uint64_t;
using SlotId = std::uint64_t;

class SlotTable {
 public:
  // `bitmaps` holds bitmap_bytes() of zeros.
  SlotTable(const Image& image, base::MemoryMap bitmaps);
  static std::uint64_t bitmap_bytes(const ImageLayout& layout) noexcept {
    return (layout.leaf_count * kHintWords + group_words(layout)) * sizeof(std::uint64_t);
  }

  // nullptr: no page near it was ever written.
  Slot* find(PageIndex page) const noexcept {
    const std::uint32_t leaf = directory_[page / kLeafSlots].load(std::memory_order_acquire);
    return leaf == 0 ? nullptr : &leaves_[(leaf - 1) * kLeafSlots + page % kLeafSlots];
  }
  Slot* take(PageIndex page) noexcept {
    Slot* slot = find(page);
    return slot != nullptr ? slot : take_leaf(page);
  }

  // The first page after `page` whose slot `find` may find; at least the device's pages if there is
  // none.
  PageIndex next_present(PageIndex page) const noexcept;

  SlotId id(const Slot& slot) const noexcept {
    return leaves_id_ + static_cast<SlotId>(&slot - leaves_);
  }
  // nullptr when `id` is no slot's, as read from memory that may hold anything.
  Slot* by_id(SlotId id) const noexcept {
    const std::uint64_t end = leaf_end_.load(std::memory_order_acquire) * kLeafSlots;
    return id >= leaves_id_ && id - leaves_id_ < end ? &leaves_[id - leaves_id_] : nullptr;
  }

  // Tells `trim` that the slot was made empty.
  void note_emptied(const Slot& slot) noexcept;
  // Gives back the memory of slots that are all empty, where `note_emptied` told of any.
  void trim() noexcept;

  void reset() noexcept;
  std::uint64_t resident_bytes() const noexcept;

 private:
  // A hint is a bit for each 4 KiB of slots.
  static constexpr std::uint64_t kStretchSlots = 4096 / sizeof(Slot);
  static constexpr std::uint64_t kHintWords = kLeafSlots / kStretchSlots / 64;

  // Entries of the directory that share a bit which tells whether any of them has a leaf.
  static constexpr std::uint64_t kGroupEntries = 1024;
  static std::uint64_t group_words(const ImageLayout& layout) noexcept {
    return layout.directory_entries / kGroupEntries / 64 + 1;
  }

  Slot* take_leaf(PageIndex page) noexcept;
  void trim_stretch(std::uint64_t first_slot) noexcept;

  const Image& image_;
  std::atomic<std::uint32_t>* const directory_;
  Slot* const leaves_;
  const SlotId leaves_id_;
  base::MemoryMap bitmap_memory_;
  std::atomic<std::uint64_t>* const hints_;
  std::atomic<std::uint64_t>* const groups_;
  base::Mutex grow_mutex_;  // held to make a leaf
  std::atomic<std::uint64_t> leaf_end_{0};
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_SLOT_TABLE_H_
