#include "exec/slow_lane.h"

#include <pthread.h>

#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "base/thread.h"

namespace uzram::exec {

bool Job::own_data() noexcept {
  if (request.data == nullptr || request.length == 0) return true;
  std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[request.length]);
  if (!buffer) return false;
  if (request.op == Op::write) std::memcpy(buffer.get(), request.data, request.length);
  buffer_ = std::move(buffer);
  request.data = buffer_.get();
  return true;
}

SlowLane::SlowLane(Device& device, LaneLimits limits) : device_(device), limits_(limits) {
  threads_.reserve(limits_.threads_max);
}

SlowLane::~SlowLane() {
  std::vector<std::thread> threads;
  {
    const base::MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool SlowLane::take(std::unique_ptr<Job>& job) noexcept {
  const base::MutexLock lock(mutex_);
  if (!has_room_for(*job)) return false;
  ++waiting_;
  if (!provide_thread()) {
    --waiting_;
    return false;
  }
  push(std::move(job));
  changed_.notify_one();
  return true;
}

bool SlowLane::has_room_for(const Job& job) const noexcept {
  return jobs_ < limits_.jobs_max && job.buffer_bytes() <= limits_.buffer_bytes_max - buffer_bytes_;
}

bool SlowLane::provide_thread() noexcept {
  if (waiting_ <= idle_ || threads_.size() == limits_.threads_max) return true;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::exception&) {
    return !threads_.empty();
  }
  return true;
}

void SlowLane::push(std::unique_ptr<Job> job) noexcept {
  ++jobs_;
  buffer_bytes_ += job->buffer_bytes();
  Job* const added = job.release();
  (first_ == nullptr ? first_ : last_->after_) = added;
  last_ = added;
}

std::unique_ptr<Job> SlowLane::pop() noexcept {
  Job* before = nullptr;
  for (Job* job = first_; job != nullptr; before = std::exchange(job, job->after_)) {
    if (!job->may_start()) continue;
    (before == nullptr ? first_ : before->after_) = job->after_;
    if (last_ == job) last_ = before;
    job->after_ = nullptr;
    --waiting_;
    return std::unique_ptr<Job>(job);
  }
  return nullptr;
}

void SlowLane::look_again() noexcept {
  const base::MutexLock lock(mutex_);
  changed_.notify_one();
}

void SlowLane::run(std::unique_ptr<Job> job) noexcept {
  Job& running = *job;
  device_.submit({&running.request, 1});
  running.ended(std::move(job));
}

void SlowLane::serve() noexcept {
  base::leave_signals_to_main();
  ::pthread_setname_np(::pthread_self(), "slow-lane");
  mutex_.lock();
  while (!ending_ || waiting_ > 0) {
    std::unique_ptr<Job> job = pop();
    if (!job) {
      ++idle_;
      changed_.wait(mutex_);
      --idle_;
      continue;
    }
    // One wakes the next: the end of a job may let several start.
    if (waiting_ > 0) changed_.notify_one();
    const std::uint64_t bytes = job->buffer_bytes();
    mutex_.unlock();
    run(std::move(job));
    mutex_.lock();
    --jobs_;
    buffer_bytes_ -= bytes;
  }
  changed_.notify_all();
  mutex_.unlock();
}

}  // namespace uzram::exec
