// Many transfers of one file at the same time, by io_uring.
//
// What: a Ring is one submission queue; a RingSet keeps a few at rest, so that each caller has one
//   of its own and none waits for another.
// Units: Ios, bytes. Ownership: a Ring owns its descriptor and queues; the file is the caller's.
// Threading: a Ring by one thread at a time; a RingSet by any.
// Errors: a system that refuses io_uring (sysctl, seccomp, RLIMIT_MEMLOCK) makes `create` fail, and
//   what a ring could not start is left as it was: the caller has another way.
#ifndef UZRAM_BACKING_RING_H_
#define UZRAM_BACKING_RING_H_

#include <liburing.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backing/store.h"
#include "backing/transfer.h"
#include "base/mutex.h"

namespace uzram::backing {

// One system call moves less than 2 GiB; a longer Io is several transfers.
inline constexpr std::size_t kTransferBytesMax = std::size_t{1} << 30U;

class Ring {
 public:
  // `depth` is 1 .. kInFlightMax; null where the system refuses.
  static std::unique_ptr<Ring> create(unsigned depth) noexcept;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  unsigned depth() const noexcept { return depth_; }

  // Runs the pending ones of `batch`, at most `in_flight_max` (1 .. depth()) at a time, and returns
  // when none is in flight. False when the system refused to go on: some may be pending still, and
  // the ring is spent.
  bool run(int fd, std::span<Io> batch, unsigned in_flight_max) noexcept;

 private:
  struct Transfer {
    Io* io = nullptr;
    std::size_t done = 0;
  };

  explicit Ring(unsigned depth) noexcept : depth_(depth) {}
  void prepare(int fd, std::uint16_t slot) noexcept;
  // Takes the answers that are there; what was short goes on.
  void reap(int fd) noexcept;
  // Waits for what the system has; what was short stays pending.
  void drain() noexcept;
  // False where the Io needs another transfer.
  static bool complete(Transfer& transfer, int result) noexcept;

  const unsigned depth_;
  io_uring ring_{};
  std::array<Transfer, kInFlightMax> transfers_{};
  std::array<std::uint16_t, kInFlightMax> free_{};  // the first `free_count_` are slots
  unsigned free_count_ = 0;
};

class RingSet {
 public:
  // Ring::create, or what a test puts in its place.
  using Create = std::unique_ptr<Ring> (*)(unsigned depth) noexcept;

  explicit RingSet(Create create) noexcept : create_(create) {}

  // Null where the system refuses. Its depth is at least `depth`.
  std::unique_ptr<Ring> take(unsigned depth) noexcept UZRAM_EXCLUDES(mutex_);
  void give_back(std::unique_ptr<Ring> ring) noexcept UZRAM_EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kAtRestMax = 8;

  const Create create_;
  base::Mutex mutex_;
  std::array<std::unique_ptr<Ring>, kAtRestMax> at_rest_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_RING_H_
