// A histogram of latencies.
//
// What: counts values in log-linear buckets: 64 equal steps to each power of two, so that a
//   percentile is at most 1.6 % above the true value; count, mean, least and greatest are exact
//   (the mean while the sum stays below 2^64).
// Units: nanoseconds by use; any 64-bit value is counted.
// Ownership: a value, about 30 KiB and nothing outside of it.
// Threading: none of its own: one per thread, merged afterwards.
// Errors: none.
#ifndef UZRAM_BASE_HISTOGRAM_H_
#define UZRAM_BASE_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace uzram::base {

class Histogram {
 public:
  // Counts `value` as seen `times` times.
  void record(std::uint64_t value, std::uint64_t times = 1) noexcept {
    buckets_[bucket_of(value)] += times;
    count_ += times;
    sum_ += value * times;
    if (times > 0 && value < min_) min_ = value;
    if (times > 0 && value > max_) max_ = value;
  }
  void merge(const Histogram& other) noexcept;

  // The value that `fraction` (0..1) of all values don't exceed; 0 when empty.
  std::uint64_t percentile(double fraction) const noexcept;
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t min() const noexcept { return count_ > 0 ? min_ : 0; }
  std::uint64_t max() const noexcept { return max_; }
  double mean() const noexcept;

 private:
  static constexpr unsigned kStepBits = 6;
  static constexpr std::uint64_t kSteps = std::uint64_t{1} << kStepBits;
  // Values below kSteps have a bucket each; above, each of the 64 - kStepBits powers has kSteps.
  static constexpr std::size_t kBuckets = (64 - kStepBits + 1) * kSteps;

  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < kSteps) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    return static_cast<std::size_t>(shift * kSteps + (value >> shift));
  }
  // The greatest value that falls into the bucket.
  static constexpr std::uint64_t upper_bound_of(std::size_t bucket) noexcept {
    if (bucket < 2 * kSteps) return bucket;
    const unsigned shift = static_cast<unsigned>(bucket / kSteps - 1);
    const std::uint64_t step = bucket % kSteps + kSteps;
    return (step << shift) + ((std::uint64_t{1} << shift) - 1);
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
};

}  // namespace uzram::base

#endif  // UZRAM_BASE_HISTOGRAM_H_
