// Requests of one connection that wait in the slow lane.
//
// What: takes commands whose request would block, each with its own copy of the data, and gives
//   them back when they have ended, in any order. One that overlaps an older change in here begins
//   when that has ended, so that no request overtakes an older overlapping change.
// Units: bytes. Ownership: a connection's; lane and device outlive it. The destructor waits for
//   what is in the lane. Memory: kBufferBytesMax.
// Threading: the connection's thread calls; the lane's threads end requests.
// Errors: `take` is false beyond the bounds, of this connection or of the lane, and without memory;
//   the connection then waits for the request itself.
#ifndef UZRAM_ATTACH_NBD_DEFERRED_H_
#define UZRAM_ATTACH_NBD_DEFERRED_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "attach/nbd/command.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "exec/slow_lane.h"
#include "uzram/device.h"

namespace uzram::attach::nbd {

class Deferred {
 public:
  static constexpr std::size_t kJobsMax = 16;
  static constexpr std::size_t kBufferBytesMax = std::size_t{34} << 20U;

  class Job;

  Deferred(Device& device, exec::SlowLane& lane) noexcept : device_(device), lane_(lane) {}
  ~Deferred();
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

  [[nodiscard]] bool take(const Command& command, const Request& request) noexcept;
  // Some are taken and not given back.
  bool any() const noexcept { return taken_ > 0; }
  // Whether a change in here overlaps it and has not ended.
  bool is_behind(const Command& command) const noexcept UZRAM_EXCLUDES(mutex_);
  void wait_until_apart(const Command& command) const noexcept UZRAM_EXCLUDES(mutex_);

  // One that has ended, or null.
  std::unique_ptr<Job> give_back() noexcept UZRAM_EXCLUDES(mutex_);
  // Waits until there is one to give back; there is at least one in here.
  void wait_for_one() const noexcept UZRAM_EXCLUDES(mutex_);
  // Readable while there is one to give back. -1 before the first was taken.
  int ready_fd() const noexcept { return ready_.get(); }

 private:
  bool is_behind(const Command& command, std::uint64_t number) const noexcept
      UZRAM_REQUIRES(mutex_);
  void enter(Job& job) noexcept UZRAM_EXCLUDES(mutex_);
  void leave(const Job& job) noexcept UZRAM_REQUIRES(mutex_);
  void ended(std::unique_ptr<Job> job) noexcept UZRAM_EXCLUDES(mutex_);

  Device& device_;
  exec::SlowLane& lane_;
  // The connection's thread's alone.
  std::size_t taken_ = 0;
  std::uint64_t buffer_bytes_ = 0;
  std::uint64_t number_ = 0;
  base::Fd ready_;  // eventfd, made when it is needed

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::array<Job*, kJobsMax> running_ UZRAM_GUARDED_BY(mutex_){};  // in the lane; null: free
  std::unique_ptr<Job> ended_ UZRAM_GUARDED_BY(mutex_);            // a list
};

class Deferred::Job final : public exec::Job {
 public:
  Job(const Command& told, const Request& asked, Deferred& of, std::uint64_t number) noexcept
      : exec::Job(asked), command(told), of_(of), number_(number) {}

  bool may_start() const noexcept override;
  void ended(std::unique_ptr<exec::Job> self) noexcept override;

  const Command command;

 private:
  friend class Deferred;
  Deferred& of_;
  const std::uint64_t number_;
  std::unique_ptr<Job> next_;
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_DEFERRED_H_
