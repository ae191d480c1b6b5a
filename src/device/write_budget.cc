#include "device/write_budget.h"

#include <algorithm>

namespace uzram::device {

WriteBackLimits WriteBudget::limits() const noexcept {
  const base::MutexLock lock(mutex_);
  return limits_;
}

Status WriteBudget::change(const WriteBackLimitsChange& change) noexcept {
  if (change.batch_size == 0U) return Status::invalid_argument;
  const base::MutexLock lock(mutex_);
  change.apply(limits_);
  if (change.limited || change.budget_blocks) ++number_;
  return Status::ok;
}

std::uint64_t WriteBudget::take(std::uint64_t blocks, std::uint64_t& number) noexcept {
  const base::MutexLock lock(mutex_);
  number = number_;
  if (!limits_.limited) return blocks;
  const std::uint64_t taken = std::min(blocks, limits_.budget_blocks);
  limits_.budget_blocks -= taken;
  return taken;
}

void WriteBudget::give(std::uint64_t blocks, std::uint64_t number) noexcept {
  const base::MutexLock lock(mutex_);
  if (limits_.limited && number == number_) limits_.budget_blocks += blocks;
}

}  // namespace uzram::device
