// One page's entry in the device's table.
//
// What: an 8-byte word that holds all that is known of a page, and a lock. Storing the word is the
// commit:
//   at any instant it is either the old page or the new one.
//     bit 0       locked
//     bit 1       somebody sleeps for the lock
//     bits 2-4    kind
//     bit 5       idle: not used since it was marked so
//     bit 6       marked: a pass works on the page, or has; whoever uses it takes the mark away
//     bits 7-23   when the page was last used (age.h)
//     bits 24-63  payload: the object of `packed` and `raw`, the pattern of `fill`, the index of
//                 `fill_wide`, the place of `backed_raw` and `backed_packed`
// Units: payload of packed and raw is a pool::ObjectRef, that of backed ones as backing_area.h
// says. Ownership: who holds the lock owns the page; who replaced a word owns what the old word
// referred to. Threading: lock and unlock nest with no other slot's lock. A holder may be
// preempted, so that waiters spin a
//   little (64 tries) and then sleep on the word's low half.
// Errors: none.
#ifndef UZRAM_DEVICE_SLOT_H_
#define UZRAM_DEVICE_SLOT_H_

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/futex.h"
#include "device/age.h"
#include "pool/pool.h"

namespace uzram::device {

enum class Kind : std::uint8_t {
  empty = 0,          // never written or discarded: reads zero
  fill = 1,           // one 4-byte pattern repeated, kept in the payload
  fill_wide = 2,      // one 8-byte pattern repeated, kept in the fill table
  packed = 3,         // an object that the codec made
  raw = 4,            // an object of 4096 bytes
  backed_raw = 5,     // a block of the backing store
  backed_packed = 6,  // an object there
};

// A slot's word without the lock bits. Two are equal when they store the same: idle, mark and stamp
// are aside. An empty word has none of those.
class SlotWord {
 public:
  constexpr SlotWord() = default;
  constexpr explicit SlotWord(std::uint64_t bits) : bits_(bits & ~kLockBits) {}
  constexpr SlotWord(Kind kind, std::uint64_t payload)
      : bits_(static_cast<std::uint64_t>(kind) << kKindShift | payload << kPayloadShift) {}
  SlotWord(Kind kind, pool::ObjectRef object)
      : SlotWord(kind, static_cast<std::uint64_t>(object)) {}

  constexpr Kind kind() const { return static_cast<Kind>(bits_ >> kKindShift & 7U); }
  constexpr std::uint64_t payload() const { return bits_ >> kPayloadShift; }
  pool::ObjectRef object() const { return pool::ObjectRef{payload()}; }
  constexpr bool has_object() const { return kind() == Kind::packed || kind() == Kind::raw; }
  constexpr bool is_backed() const {
    return kind() == Kind::backed_raw || kind() == Kind::backed_packed;
  }
  constexpr bool is_fill() const { return kind() == Kind::fill || kind() == Kind::fill_wide; }
  constexpr std::uint64_t bits() const { return bits_; }
  friend constexpr bool operator==(SlotWord a, SlotWord b) {
    return ((a.bits_ ^ b.bits_) & ~kAsideBits) == 0;
  }

  constexpr bool idle() const { return (bits_ & kIdle) != 0; }
  constexpr bool marked() const { return (bits_ & kMarked) != 0; }
  constexpr Stamp stamp() const { return Stamp(bits_ >> kStampShift & kStampMask); }
  // As after a use at `now`: neither idle nor marked.
  constexpr SlotWord used(Stamp now) const {
    return kind() == Kind::empty ? SlotWord() : with_stamp(now, 0);
  }
  constexpr SlotWord restamped(Stamp stamp) const { return with_stamp(stamp, bits_ & kFlagBits); }
  constexpr SlotWord as_idle() const { return SlotWord(bits_ | kIdle); }
  // Given to a pass: no longer idle, so that the next pass of its kind passes over it.
  constexpr SlotWord as_marked() const { return SlotWord((bits_ | kMarked) & ~kIdle); }
  constexpr SlotWord unmarked() const { return SlotWord(bits_ & ~kMarked); }
  // The same content with another's idle, mark and stamp.
  constexpr SlotWord with_aside_of(SlotWord other) const {
    return SlotWord((bits_ & ~kAsideBits) | (other.bits_ & kAsideBits));
  }

 private:
  static constexpr unsigned kKindShift = 2, kStampShift = 7, kPayloadShift = 24;
  static constexpr std::uint64_t kLockBits = 3, kIdle = 1U << 5, kMarked = 1U << 6;
  static constexpr std::uint64_t kFlagBits = kIdle | kMarked;
  static constexpr std::uint64_t kStampMask = (std::uint64_t{1} << kStampBits) - 1;
  static constexpr std::uint64_t kAsideBits = kFlagBits | kStampMask << kStampShift;
  static_assert(kStampShift + kStampBits == kPayloadShift);
  constexpr SlotWord with_stamp(Stamp stamp, std::uint64_t flags) const {
    return SlotWord((bits_ & ~kAsideBits) | flags |
                    static_cast<std::uint64_t>(stamp) << kStampShift);
  }
  static_assert(64 - kPayloadShift == pool::kObjectRefBits);
  std::uint64_t bits_ = 0;
};

constexpr bool reads_zero(SlotWord word) {
  return word == SlotWord() || word == SlotWord(Kind::fill, std::uint64_t{0});
}

class Slot {
 public:
  // Without the lock: true of the moment of the call only.
  SlotWord peek() const noexcept { return SlotWord(word_.load(std::memory_order_acquire)); }
  bool locked() const noexcept { return (word_.load(std::memory_order_relaxed) & kLocked) != 0; }

  SlotWord lock() noexcept;
  bool try_lock(SlotWord& word) noexcept;
  // Publishes `word` and lets the next one in.
  void unlock(SlotWord word) noexcept {
    const std::uint64_t old = word_.exchange(word.bits(), std::memory_order_acq_rel);
    if ((old & kWaiters) != 0) base::futex_wake(low_half(), 1);
  }
  // Publishes `word` at once where nobody holds the lock, else after them; gives what it replaced.
  SlotWord replace(SlotWord word) noexcept;

  // Changes what is aside, where nobody holds the lock: who does, uses the page. False where the
  // word changed meanwhile.
  bool try_set_aside(SlotWord seen, SlotWord wanted) noexcept {
    std::uint64_t bits = seen.bits();
    return word_.compare_exchange_strong(bits, wanted.bits(), std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

  // For a table that drops an empty page of slots (SlotTable::trim): locks an empty slot.
  bool try_lock_empty() noexcept {
    std::uint64_t empty = 0;
    return word_.compare_exchange_strong(empty, kLocked, std::memory_order_acq_rel);
  }
  // Whether any thread may be asleep on a slot, or be about to be: asked after the words that it
  // could sleep on are gone, no means that nobody missed it.
  static bool anybody_sleeps() noexcept { return sleepers_.load(std::memory_order_seq_cst) != 0; }
  void wake_all() noexcept { base::futex_wake(low_half(), 1 << 30); }

 private:
  static constexpr std::uint64_t kLocked = 1, kWaiters = 2;
  static constexpr int kSpins = 64;

  // Waits until the word is seen unlocked; `slept` tells that others may sleep too, and is their
  // turn.
  std::uint64_t wait_unlocked(bool& slept) noexcept;

  const void* low_half() const noexcept {
    static_assert(std::endian::native == std::endian::little);
    return &word_;
  }

  static std::atomic<std::uint32_t> sleepers_;
  std::atomic<std::uint64_t> word_;
};
static_assert(sizeof(Slot) == 8);

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_SLOT_H_
