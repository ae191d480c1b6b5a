#include "base/histogram.h"

#include <algorithm>
#include <cmath>

namespace uzram::base {

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::percentile(double fraction) const noexcept {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_));
  const std::uint64_t rank =
      wanted >= static_cast<double>(count_) ? count_ : static_cast<std::uint64_t>(wanted);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank && seen > 0) return std::clamp(upper_bound_of(i), min_, max_);
  }
  return max_;
}

double Histogram::mean() const noexcept {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

}  // namespace uzram::base
