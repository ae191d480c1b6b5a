// A device on a flat array, for tests of what stands above a device.
//
// What: a plain array with a bitmap of written pages; can be told to fail, or that a range stands
// on
//   a backing store that does not answer. Units: bytes.
// Ownership: owns its bytes. Threading: one mutex over all; a request that waits is outside it.
// Errors: `fail_next` is given to the next request of that kind, which then changes nothing.
#ifndef UZRAM_TESTS_SUPPORT_FAKE_DEVICE_H_
#define UZRAM_TESTS_SUPPORT_FAKE_DEVICE_H_

#include <optional>
#include <vector>

#include "base/mutex.h"
#include "uzram/device.h"

namespace uzram::test {

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(std::uint64_t size_bytes, bool read_only = false);

  void fail_next(Op op, Status status);
  // From now on what touches the range, flushes aside, ends with would_block if it has kNoWait, and
  // waits if not.
  void block(std::uint64_t begin, std::uint64_t end);
  // Lets go on what waits, one after the other, and ends the blocking.
  void unblock();
  // Waits until at least `count` requests wait.
  void wait_until_waiting(unsigned count) const;
  unsigned waiting() const;
  // Waits until at least `count` requests were answered with would_block.
  void wait_until_refused(unsigned count) const;

  void submit(std::span<Request> batch) noexcept override;
  std::size_t extents(std::uint64_t offset, std::uint64_t length,
                      std::span<Extent> out) const noexcept override;
  void reset() noexcept override;
  Stats stats() const noexcept override;
  void set_mem_limit(std::uint64_t bytes) noexcept override;
  void reset_mem_used_max() noexcept override {}
  void compact() noexcept override {}
  // Moves nothing; what it was told last is kept.
  Result<std::uint64_t> write_back(const WriteBackOptions& options) override;
  WriteBackOptions last_write_back() const;
  const DeviceOptions& options() const noexcept override { return options_; }

 private:
  Status run(const Request& request) UZRAM_REQUIRES(mutex_);
  bool is_blocked(const Request& request) const UZRAM_REQUIRES(mutex_);

  DeviceOptions options_;
  mutable base::Mutex mutex_;
  std::vector<std::byte> bytes_ UZRAM_GUARDED_BY(mutex_);
  std::vector<bool> stored_ UZRAM_GUARDED_BY(mutex_);
  std::optional<std::pair<Op, Status>> fault_ UZRAM_GUARDED_BY(mutex_);
  std::uint64_t blocked_begin_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::uint64_t blocked_end_ UZRAM_GUARDED_BY(mutex_) = 0;  // empty: nothing is blocked
  unsigned waiting_ UZRAM_GUARDED_BY(mutex_) = 0;
  unsigned refused_ UZRAM_GUARDED_BY(mutex_) = 0;
  mutable base::CondVar counts_changed_;
  base::CondVar unblocked_;
  Stats stats_ UZRAM_GUARDED_BY(mutex_);
  WriteBackOptions write_back_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_FAKE_DEVICE_H_
