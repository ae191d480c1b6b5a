// One request's turn on a thread of the session.
//
// What: serves what the operations ask of the device, and never waits for the backing store: the
//   device is asked with kNoWait, and what would block, or must come after a change that does, goes
//   to the slow lane with the FUSE request and its own copy of the data. The lane's thread replies.
// Units: bytes. Ownership: one for each thread of the session; lane and order outlive it. Whatever
//   it left to the lane is over when the lane's destructor returns.
// Threading: its thread's alone. Errors: the device's go to the kernel, and no_memory where a
//   request finds none to wait in.
#ifndef UZRAM_ATTACH_LOOP_TURN_H_
#define UZRAM_ATTACH_LOOP_TURN_H_

#include <memory>

#include "attach/loop/change_order.h"
#include "attach/loop/fuse_ops.h"
#include "exec/slow_lane.h"

namespace uzram::attach {

class Turn {
 public:
  Turn(Device& device, exec::SlowLane& lane, ChangeOrder& order) noexcept
      : device_(device), lane_(lane), order_(order) {
    current_ = this;
  }
  ~Turn() { current_ = nullptr; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // The calling thread's.
  static Turn& current() noexcept { return *current_; }

  // A request with its place in the order.
  void begin(unsigned ticket) noexcept { ticket_ = ticket; }
  // Answers it, now or later. The request's data are needed only until this returns. Waits for
  // changes that were there before, unless they wait for the backing store themselves.
  void serve(fuse_req_t req, Request request) noexcept;
  // Something is left that only `end` does.
  bool is_refused() const noexcept { return refused_ != nullptr; }
  // Gives up its place in the order. What the lane had no room for is run here, and waited for: not
  // to be called with a lock held.
  void end() noexcept;

 private:
  static inline thread_local Turn* current_ = nullptr;

  Device& device_;
  exec::SlowLane& lane_;
  ChangeOrder& order_;
  unsigned ticket_ = ChangeOrder::kNone;
  std::unique_ptr<exec::Job> refused_;
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_TURN_H_
