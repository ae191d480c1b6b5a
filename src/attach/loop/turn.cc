#include "attach/loop/turn.h"

#include <new>
#include <utility>

namespace uzram::attach {
namespace {

void reply(fuse_req_t req, const Request& request) noexcept {
  if (request.status != Status::ok) {
    fuse_reply_err(req, errno_of(request.status));
  } else if (request.op == Op::read) {
    fuse_reply_buf(req, reinterpret_cast<const char*>(request.data), request.length);
  } else if (request.op == Op::write) {
    fuse_reply_write(req, request.length);
  } else {
    fuse_reply_err(req, 0);  // success to libfuse
  }
}

// A slow change that waits in the lane for this one is found by a look.
void leave(ChangeOrder& order, exec::SlowLane& lane, unsigned ticket) noexcept {
  if (order.leave(ticket)) lane.look_again();
}

class FuseJob final : public exec::Job {
 public:
  FuseJob(const Request& asked, fuse_req_t req, ChangeOrder& order, exec::SlowLane& lane,
          unsigned ticket) noexcept
      : Job(asked), req_(req), order_(order), lane_(lane), ticket_(ticket) {}

  bool may_start() const noexcept override { return !order_.must_wait(ticket_); }
  void ended(std::unique_ptr<Job>) noexcept override {
    reply(req_, request);
    leave(order_, lane_, ticket_);
  }

 private:
  const fuse_req_t req_;
  ChangeOrder& order_;
  exec::SlowLane& lane_;
  const unsigned ticket_;
};

}  // namespace

void Turn::serve(fuse_req_t req, Request request) noexcept {
  request.flags |= kNoWait;
  if (order_.wait_for_fast(ticket_)) {
    device_.submit({&request, 1});
    if (request.status != Status::would_block) {
      reply(req, request);
      return;
    }
  }
  std::unique_ptr<exec::Job> job(new (std::nothrow) FuseJob(request, req, order_, lane_, ticket_));
  if (!job || !job->own_data()) {
    fuse_reply_err(req, errno_of(Status::no_memory));
    return;
  }
  order_.mark_slow(ticket_);
  if (lane_.take(job)) {
    ticket_ = ChangeOrder::kNone;  // the job's now
  } else {
    refused_ = std::move(job);
  }
}

void Turn::end() noexcept {
  const unsigned ticket = std::exchange(ticket_, ChangeOrder::kNone);
  if (refused_) {
    order_.wait(ticket);
    lane_.run(std::move(refused_));
  } else {
    leave(order_, lane_, ticket);
  }
}

}  // namespace uzram::attach
