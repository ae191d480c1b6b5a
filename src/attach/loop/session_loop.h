// The threads that serve a FUSE session, in order where order can be seen.
//
// What: several threads take requests off one session. Changes (write, fallocate) of overlapping
//   pages begin in the order in which the kernel gave them out and wait for each other; all else
//   runs side by side. The kernel's zram and brd work each request off where it was submitted, so
//   that of two writes of one block under way the later one always wins; programs that check what
//   they wrote rely on it.
// Units: bytes. Ownership: borrows the session. Threading: `run` by one thread, which serves too.
// Errors: `run` returns when the session has been told to exit, or can't go on.
#ifndef UZRAM_ATTACH_LOOP_SESSION_LOOP_H_
#define UZRAM_ATTACH_LOOP_SESSION_LOOP_H_

#include <array>
#include <cstdint>

#include "base/mutex.h"

struct fuse_buf;
struct fuse_session;

namespace uzram::attach {

// Ranges of changes under way, in the order of their arrival.
class ChangeOrder {
 public:
  static constexpr unsigned kChangesMax = 8;  // as many as there are threads
  static constexpr unsigned kNone = kChangesMax;

  // Enters a range, to be called in the order of arrival; a ticket for the other two. An empty
  // range needs none: kNone.
  unsigned enter(std::uint64_t begin, std::uint64_t end);
  // Whether changes that entered before overlap it.
  bool must_wait(unsigned ticket) const;
  void wait(unsigned ticket);
  void leave(unsigned ticket);

 private:
  struct Change {
    std::uint64_t begin = 0, end = 0;  // whole pages; empty: not in use
    std::uint64_t number = 0;
  };
  bool is_behind(const Change& change) const UZRAM_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  base::CondVar left_;
  std::uint64_t entered_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::array<Change, kChangesMax> changes_ UZRAM_GUARDED_BY(mutex_);
};

class SessionLoop {
 public:
  explicit SessionLoop(fuse_session* session) : session_(session) {}

  // Serves with `threads` threads (1 to ChangeOrder::kChangesMax), this one among them. Fewer where
  // the system has no more to give.
  void run(unsigned threads);

 private:
  void serve();
  // The next request, and its place in the order; false when there will be no more.
  bool receive(fuse_buf& request, unsigned& ticket);
  bool has_more() const;

  fuse_session* const session_;
  base::Mutex
      receive_mutex_;  // held to receive a request and to enter it, and for a short one alone
  ChangeOrder order_;
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_SESSION_LOOP_H_
