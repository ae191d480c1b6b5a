// When a page was last used, in 17 bits of its slot.
//
// What: a stamp is a time in seconds, modulo 2^16, or, once it is old, in units of 128 seconds. A
//   sweep of all slots at least every kSweepSeconds turns old fine stamps into coarse ones and
//   keeps coarse ones from coming round: ages are exact to a second up to 9 hours, to 128 seconds
//   above, and end at kAgeMax, 45 days.
// Units: seconds of a clock that begins with the device. Ownership, threading: values; the clock
// may
//   be asked by any thread. Errors: none.
#ifndef UZRAM_DEVICE_AGE_H_
#define UZRAM_DEVICE_AGE_H_

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace uzram::device {

inline constexpr unsigned kStampBits = 17;
enum class Stamp : std::uint32_t {};

class Age {
 public:
  static constexpr std::uint64_t kSweepSeconds = 4 * 3600;
  static constexpr std::uint64_t kAgeMax = std::uint64_t{45} * 24 * 3600;

  static constexpr Stamp stamp(std::uint64_t now) { return Stamp(now & kMask); }
  static constexpr std::uint64_t of(Stamp stamp, std::uint64_t now) {
    const std::uint64_t value = static_cast<std::uint64_t>(stamp) & kMask;
    if (!is_coarse(stamp)) return (now - value) & kMask;
    return std::min(((now / kUnit - value) & kMask) * kUnit, kAgeMax);
  }
  // The stamp of the same age that holds until the next sweep but one.
  static constexpr Stamp swept(Stamp stamp, std::uint64_t now) {
    const std::uint64_t age = of(stamp, now);
    if (!is_coarse(stamp) && age <= kFineMax) return stamp;
    return Stamp(((now / kUnit - age / kUnit) & kMask) | kCoarseBit);
  }

 private:
  static constexpr std::uint64_t kMask = 0xffff, kUnit = 128;
  static constexpr std::uint64_t kFineMax = 9 * 3600;
  static constexpr std::uint32_t kCoarseBit = 1U << 16;
  static constexpr bool is_coarse(Stamp stamp) {
    return (static_cast<std::uint32_t>(stamp) & kCoarseBit) != 0;
  }
  // Fine stamps must not come round between two sweeps, nor coarse ones past their end.
  static_assert(kFineMax + 2 * kSweepSeconds < kMask + 1);
  static_assert(kAgeMax + 2 * kSweepSeconds < (kMask + 1) * kUnit);
};

// Seconds since the device was made, but for those that the machine was suspended.
class AgeClock {
 public:
  AgeClock() : start_(seconds()) {}
  std::uint64_t now() const noexcept {
    return seconds() - start_ + ahead_.load(std::memory_order_relaxed);
  }
  // For tests: as if time had passed.
  void advance(std::uint64_t seconds) noexcept { ahead_.fetch_add(seconds); }

 private:
  // The coarse clock costs a request a few nanoseconds.
  static std::uint64_t seconds() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return static_cast<std::uint64_t>(time.tv_sec);
  }
  const std::uint64_t start_;
  std::atomic<std::uint64_t> ahead_{0};
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_AGE_H_
