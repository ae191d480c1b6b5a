#include "device/fill_table.h"

namespace uzram::device {

std::optional<std::uint64_t> FillTable::take(std::uint64_t pattern) noexcept {
  const base::MutexLock lock(mutex_);
  std::uint64_t index = free_;
  if (index != kNone) {
    free_ = words_[index];
  } else {
    if (end_ == image_.layout().fill_count) return std::nullopt;
    index = end_++;
  }
  ++used_;
  words_[index] = pattern;
  return index;
}

void FillTable::give(std::uint64_t index) noexcept {
  const base::MutexLock lock(mutex_);
  words_[index] = free_;
  free_ = index;
  --used_;
}

void FillTable::trim() noexcept {
  const base::MutexLock lock(mutex_);
  if (used_ == 0) drop_all();
}

void FillTable::reset() noexcept {
  const base::MutexLock lock(mutex_);
  drop_all();
}

void FillTable::drop_all() noexcept {
  image_.memory().release(image_.layout().fills_offset, (end_ * 8 + 4095) / 4096 * 4096);
  end_ = used_ = 0;
  free_ = kNone;
}

std::uint64_t FillTable::resident_bytes() const noexcept {
  const base::MutexLock lock(mutex_);
  return (end_ * 8 + 4095) / 4096 * 4096;
}

}  // namespace uzram::device
