// Where requests wait for the backing store, so that nobody else waits behind them.
//
// What: a front-end submits with kNoWait on its own thread; what ends with would_block it hands
//   over as a Job. A lane's thread submits it again without the flag and tells the job when it has
//   ended. Threads are made when they are needed and sleep when there is nothing to do.
// Units: jobs, bytes. Ownership: the lane owns a job from `take` until it has ended; the device
//   outlives the lane, and so does what the jobs refer to.
// Threading: `take` and `look_again` from any thread; `may_start` and `ended` are called by the
//   lane's. The destructor waits for every job that was taken.
// Errors: `take` is false where a bound is reached or the system has no thread to give; the job is
//   then still the caller's, who runs it.
#ifndef UZRAM_EXEC_SLOW_LANE_H_
#define UZRAM_EXEC_SLOW_LANE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "uzram/device.h"
#include "uzram/request.h"

namespace uzram::exec {

class Job {
 public:
  explicit Job(const Request& asked) noexcept : request(asked) {
    request.flags &= static_cast<std::uint8_t>(~kNoWait);
  }
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Gives the request a buffer of its own, with a copy of what a write writes. False without
  // memory, and nothing has changed.
  [[nodiscard]] bool own_data() noexcept;
  // What it keeps in memory while it waits.
  std::uint64_t buffer_bytes() const noexcept { return buffer_ ? request.length : 0; }

  // Whether it needs to wait for no other request; asked with the lane's lock held. Once true, it
  // stays so.
  virtual bool may_start() const noexcept { return true; }
  // The request has its status. `self` is this job, to be dropped or kept.
  virtual void ended(std::unique_ptr<Job> self) noexcept = 0;

  Request request;

 private:
  friend class SlowLane;
  std::unique_ptr<std::byte[]> buffer_;
  Job* after_ = nullptr;  // in the lane's queue
};

struct LaneLimits {
  unsigned threads_max = 8;
  std::size_t jobs_max = 256;                                 // waiting or running
  std::uint64_t buffer_bytes_max = std::uint64_t{64} << 20U;  // of those
};

class SlowLane {
 public:
  explicit SlowLane(Device& device, LaneLimits limits = {});
  ~SlowLane();
  SlowLane(const SlowLane&) = delete;
  SlowLane& operator=(const SlowLane&) = delete;

  // Takes it and returns true, or leaves it where it is. Jobs that may start do so in the order in
  // which they were taken.
  [[nodiscard]] bool take(std::unique_ptr<Job>& job) noexcept UZRAM_EXCLUDES(mutex_);
  // Something that a `may_start` looks at has changed, other than by the end of a job.
  void look_again() noexcept UZRAM_EXCLUDES(mutex_);
  // On the calling thread, for who was refused. The job may start.
  void run(std::unique_ptr<Job> job) noexcept;

 private:
  void serve() noexcept UZRAM_EXCLUDES(mutex_);
  bool has_room_for(const Job& job) const noexcept UZRAM_REQUIRES(mutex_);
  // A thread for the jobs that wait; false when there is none at all.
  bool provide_thread() noexcept UZRAM_REQUIRES(mutex_);
  void push(std::unique_ptr<Job> job) noexcept UZRAM_REQUIRES(mutex_);
  // The first that may start, or null.
  std::unique_ptr<Job> pop() noexcept UZRAM_REQUIRES(mutex_);

  Device& device_;
  const LaneLimits limits_;
  base::Mutex mutex_;
  base::CondVar changed_;
  Job* first_ UZRAM_GUARDED_BY(mutex_) = nullptr;
  Job* last_ UZRAM_GUARDED_BY(mutex_) = nullptr;
  std::size_t waiting_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::size_t jobs_ UZRAM_GUARDED_BY(mutex_) = 0;  // waiting or running
  std::uint64_t buffer_bytes_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::size_t idle_ UZRAM_GUARDED_BY(mutex_) = 0;  // threads that sleep
  bool ending_ UZRAM_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::exec

#endif  // UZRAM_EXEC_SLOW_LANE_H_
