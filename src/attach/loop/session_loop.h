// The threads that serve a FUSE session, in order where order can be seen.
//
// What: several threads take requests off one session. Changes (write, fallocate) of overlapping
//   pages begin in the order in which the kernel gave them out and wait for each other; all else
//   runs side by side. The kernel's zram and brd work each request off where it was submitted, so
//   that of two writes of one block under way the later one always wins; programs that check what
//   they wrote rely on it. What waits for the backing store does so in a lane of the session's own.
// Units: bytes. Ownership: borrows session and device. Threading: `run` by one thread, which serves
//   too. The destructor waits until all that was received has been answered.
// Errors: `run` returns when the session has been told to exit, or can't go on.
#ifndef UZRAM_ATTACH_LOOP_SESSION_LOOP_H_
#define UZRAM_ATTACH_LOOP_SESSION_LOOP_H_

#include "attach/loop/change_order.h"
#include "attach/loop/turn.h"
#include "base/mutex.h"
#include "exec/slow_lane.h"
#include "uzram/device.h"

struct fuse_buf;
struct fuse_session;

namespace uzram::attach {

class SessionLoop {
 public:
  SessionLoop(fuse_session* session, Device& device);

  // Serves with `threads` threads (1 to ChangeOrder::kThreadsMax), this one among them. Fewer where
  // the system has no more to give.
  void run(unsigned threads);

 private:
  void serve();
  // The next request that is not done yet, begun by `turn`; false when there will be no more.
  bool receive(fuse_buf& request, Turn& turn);
  bool has_more() const;

  fuse_session* const session_;
  Device& device_;
  base::Mutex
      receive_mutex_;  // held to receive a request and to enter it, and for a short one alone
  ChangeOrder order_;
  exec::SlowLane lane_;  // last: its jobs refer to the order
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_SESSION_LOOP_H_
