// What write-back may still write.
//
// Units: blocks of 4096 bytes. Ownership: its own. Threading: any. Errors: as told.
#ifndef UZRAM_DEVICE_WRITE_BUDGET_H_
#define UZRAM_DEVICE_WRITE_BUDGET_H_

#include <cstdint>

#include "base/mutex.h"
#include "uzram/device.h"

namespace uzram::device {

class WriteBudget {
 public:
  explicit WriteBudget(const WriteBackLimits& limits) : limits_(limits) {}

  WriteBackLimits limits() const noexcept;
  // invalid_argument, and nothing changed: a batch of 0.
  Status change(const WriteBackLimitsChange& change) noexcept;
  // As many of `blocks` as the budget allows; `number` names the one they are taken from. What is
  // given back to a budget that has been replaced since is nobody's.
  std::uint64_t take(std::uint64_t blocks, std::uint64_t& number) noexcept;
  void give(std::uint64_t blocks, std::uint64_t number) noexcept;

 private:
  mutable base::Mutex mutex_;
  WriteBackLimits limits_ UZRAM_GUARDED_BY(mutex_);
  std::uint64_t number_ UZRAM_GUARDED_BY(mutex_) = 0;  // counts the budgets that were set
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_WRITE_BUDGET_H_
