#include "device/slot.h"

namespace uzram::device {
namespace {

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

std::atomic<std::uint32_t> Slot::sleepers_{0};

SlotWord Slot::lock() noexcept {
  bool slept = false;
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & kLocked) != 0) word = wait_unlocked(slept);
    // Who slept can't know whether others still do, and keeps the mark for them.
    const std::uint64_t mark = slept ? kLocked | kWaiters : kLocked;
    if (word_.compare_exchange_weak(word, word | mark, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return SlotWord(word);
    }
  }
}

bool Slot::try_lock(SlotWord& word) noexcept {
  std::uint64_t bits = word_.load(std::memory_order_relaxed);
  if ((bits & kLocked) != 0 ||
      !word_.compare_exchange_strong(bits, bits | kLocked, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return false;
  }
  word = SlotWord(bits);
  return true;
}

SlotWord Slot::replace(SlotWord next) noexcept {
  bool slept = false;
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  for (;;) {
    if ((word & kLocked) != 0) word = wait_unlocked(slept);
    if (word_.compare_exchange_weak(word, next.bits(), std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      // The wake that was ours is used up; it belongs to the next sleeper.
      if (slept || (word & kWaiters) != 0) base::futex_wake(low_half(), 1);
      return SlotWord(word);
    }
  }
}

std::uint64_t Slot::wait_unlocked(bool& slept) noexcept {
  for (int spin = 0; spin < kSpins; ++spin) {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kLocked) == 0) return word;
    relax();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::uint64_t word = word_.load(std::memory_order_seq_cst);
  while ((word & kLocked) != 0) {
    if ((word & kWaiters) != 0 ||
        word_.compare_exchange_weak(word, word | kWaiters, std::memory_order_seq_cst)) {
      base::futex_wait(low_half(), static_cast<std::uint32_t>(word | kWaiters));
      slept = true;
    }
    word = word_.load(std::memory_order_seq_cst);
  }
  sleepers_.fetch_sub(1, std::memory_order_release);
  return word;
}

}  // namespace uzram::device
