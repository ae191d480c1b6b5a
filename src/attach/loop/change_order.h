// The order in which overlapping changes take effect.
//
// What: ranges of changes (write, fallocate) under way, in the order in which the kernel gave them
//   out. One is *slow* once it waits for the backing store, or for another slow one: it is then a
//   lane's, and the session's threads don't wait for it but leave their own change behind it.
// Units: bytes; overlaps are of whole pages. Ownership: a ticket is left exactly once.
// Threading: `enter` by one thread at a time, in the order of arrival; the rest by any.
// Errors: none. There are as many tickets as changes can be under way.
#ifndef UZRAM_ATTACH_LOOP_CHANGE_ORDER_H_
#define UZRAM_ATTACH_LOOP_CHANGE_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"

namespace uzram::attach {

class ChangeOrder {
 public:
  static constexpr unsigned kThreadsMax = 8;    // one change each
  static constexpr std::size_t kSlowMax = 256;  // as many as the kernel keeps in flight for us
  static constexpr unsigned kChangesMax = kThreadsMax + unsigned{kSlowMax};
  static constexpr unsigned kNone = kChangesMax;

  // Enters a range; a ticket for the others. An empty range needs none: kNone, which waits for
  // nothing.
  unsigned enter(std::uint64_t begin, std::uint64_t end);
  // Whether changes that entered before overlap it.
  bool must_wait(unsigned ticket) const;
  void wait(unsigned ticket);
  // False as soon as one of them is slow.
  bool wait_for_fast(unsigned ticket);
  void mark_slow(unsigned ticket);
  // True when a slow one is behind it.
  bool leave(unsigned ticket);

 private:
  struct Change {
    std::uint64_t begin = 0, end = 0;  // whole pages; empty: not in use
    std::uint64_t number = 0;
    bool slow = false;
  };
  bool is_behind(const Change& change, bool slow_only) const UZRAM_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::uint64_t entered_ UZRAM_GUARDED_BY(mutex_) = 0;
  unsigned slow_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::array<Change, kChangesMax> changes_ UZRAM_GUARDED_BY(mutex_);
  unsigned end_ UZRAM_GUARDED_BY(mutex_) = 0;  // none from here on is in use
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_CHANGE_ORDER_H_
