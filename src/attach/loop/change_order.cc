#include "attach/loop/change_order.h"

#include <algorithm>
#include <span>

#include "uzram/device.h"

namespace uzram::attach {
namespace {

template <typename Change>
bool is_free(const Change& change) {
  return change.begin == change.end;
}

template <typename Change>
bool overlap(const Change& one, const Change& other) {
  return one.begin < other.end && other.begin < one.end;
}

}  // namespace

unsigned ChangeOrder::enter(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return kNone;
  const base::MutexLock lock(mutex_);
  unsigned ticket = 0;
  while (!is_free(changes_[ticket])) ++ticket;
  changes_[ticket] = {begin / kPageBytes * kPageBytes,
                      (end - 1) / kPageBytes * kPageBytes + kPageBytes, entered_++, false};
  end_ = std::max(end_, ticket + 1);
  return ticket;
}

bool ChangeOrder::is_behind(const Change& change, bool slow_only) const {
  const std::span<const Change> used(changes_.data(), end_);
  return std::any_of(used.begin(), used.end(), [&](const Change& other) {
    return other.number < change.number && overlap(change, other) && (other.slow || !slow_only);
  });
}

bool ChangeOrder::must_wait(unsigned ticket) const {
  if (ticket == kNone) return false;
  const base::MutexLock lock(mutex_);
  return is_behind(changes_[ticket], false);
}

void ChangeOrder::wait(unsigned ticket) {
  if (ticket == kNone) return;
  const base::MutexLock lock(mutex_);
  while (is_behind(changes_[ticket], false)) changed_.wait(mutex_);
}

bool ChangeOrder::wait_for_fast(unsigned ticket) {
  if (ticket == kNone) return true;
  const base::MutexLock lock(mutex_);
  while (is_behind(changes_[ticket], false)) {
    if (slow_ > 0 && is_behind(changes_[ticket], true)) return false;
    changed_.wait(mutex_);
  }
  return true;
}

void ChangeOrder::mark_slow(unsigned ticket) {
  if (ticket == kNone) return;
  const base::MutexLock lock(mutex_);
  changes_[ticket].slow = true;
  ++slow_;
  changed_.notify_all();
}

bool ChangeOrder::leave(unsigned ticket) {
  if (ticket == kNone) return false;
  const base::MutexLock lock(mutex_);
  const Change left = changes_[ticket];
  if (left.slow) --slow_;
  changes_[ticket] = {};
  while (end_ > 0 && is_free(changes_[end_ - 1])) --end_;
  changed_.notify_all();
  const std::span<const Change> used(changes_.data(), end_);
  return slow_ > 0 && std::any_of(used.begin(), used.end(), [&left](const Change& other) {
           return other.slow && other.number > left.number && overlap(left, other);
         });
}

}  // namespace uzram::attach
