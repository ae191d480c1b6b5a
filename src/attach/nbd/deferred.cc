#include "attach/nbd/deferred.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "attach/nbd/protocol.h"

namespace uzram::attach::nbd {

bool Deferred::Job::may_start() const noexcept {
  const base::MutexLock lock(of_.mutex_);
  return !of_.is_behind(command, number_);
}

void Deferred::Job::ended(std::unique_ptr<exec::Job> self) noexcept {
  // "FUA": durable before the reply.
  if (request.status == Status::ok && command.is_change() && (command.flags & kCmdFlagFua) != 0) {
    request.status = of_.device_.flush();
  }
  (void)self.release();
  of_.ended(std::unique_ptr<Job>(this));
}

Deferred::~Deferred() {
  for (; any(); (void)give_back()) wait_for_one();
}

bool Deferred::take(const Command& command, const Request& request) noexcept {
  if (taken_ == kJobsMax) return false;
  if (!ready_) ready_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready_) return false;
  std::unique_ptr<Job> job(new (std::nothrow) Job(command, request, *this, number_++));
  const std::uint64_t bytes = request.data != nullptr ? request.length : 0;
  if (!job || bytes > kBufferBytesMax - buffer_bytes_ || !job->own_data()) return false;
  Job& entered = *job;
  enter(entered);
  std::unique_ptr<exec::Job> for_lane = std::move(job);
  if (!lane_.take(for_lane)) {
    const base::MutexLock lock(mutex_);
    leave(entered);
    return false;
  }
  ++taken_;
  buffer_bytes_ += bytes;
  return true;
}

void Deferred::enter(Job& job) noexcept {
  const base::MutexLock lock(mutex_);
  *std::find(running_.begin(), running_.end(), nullptr) = &job;
}

void Deferred::leave(const Job& job) noexcept {
  *std::find(running_.begin(), running_.end(), &job) = nullptr;
}

void Deferred::ended(std::unique_ptr<Job> job) noexcept {
  // All of it under the lock: without it, the connection may be gone.
  const base::MutexLock lock(mutex_);
  leave(*job);
  job->next_ = std::move(ended_);
  ended_ = std::move(job);
  changed_.notify_all();
  const std::uint64_t one = 1;
  (void)!::write(ready_.get(), &one, sizeof one);
}

std::unique_ptr<Deferred::Job> Deferred::give_back() noexcept {
  const base::MutexLock lock(mutex_);
  if (!ended_) return nullptr;
  std::unique_ptr<Job> job = std::move(ended_);
  ended_ = std::move(job->next_);
  if (!ended_) {
    std::uint64_t count = 0;
    (void)!::read(ready_.get(), &count, sizeof count);
  }
  --taken_;
  buffer_bytes_ -= job->buffer_bytes();
  return job;
}

void Deferred::wait_for_one() const noexcept {
  const base::MutexLock lock(mutex_);
  while (!ended_) changed_.wait(mutex_);
}

bool Deferred::is_behind(const Command& command, std::uint64_t number) const noexcept {
  return std::any_of(running_.begin(), running_.end(), [&](const Job* other) {
    return other != nullptr && other->number_ < number && other->command.is_change() &&
           other->command.overlaps(command);
  });
}

bool Deferred::is_behind(const Command& command) const noexcept {
  const base::MutexLock lock(mutex_);
  return is_behind(command, number_);
}

void Deferred::wait_until_apart(const Command& command) const noexcept {
  const base::MutexLock lock(mutex_);
  while (is_behind(command, number_)) changed_.wait(mutex_);
}

}  // namespace uzram::attach::nbd
