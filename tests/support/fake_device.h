// A device on a flat array, for tests of what stands above a device.
//
// What: a plain array with a bitmap of written pages; can be told to fail. Units: bytes.
// Ownership: owns its bytes. Threading: one mutex over all. Errors: `fail_next` is given to the
// next request of that kind, which then changes nothing.
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

  void submit(std::span<Request> batch) noexcept override;
  std::size_t extents(std::uint64_t offset, std::uint64_t length,
                      std::span<Extent> out) const noexcept override;
  void reset() noexcept override;
  Stats stats() const noexcept override;
  void set_mem_limit(std::uint64_t bytes) noexcept override;
  void reset_mem_used_max() noexcept override {}
  void compact() noexcept override {}
  const DeviceOptions& options() const noexcept override { return options_; }

 private:
  Status run(const Request& request) UZRAM_REQUIRES(mutex_);

  DeviceOptions options_;
  mutable base::Mutex mutex_;
  std::vector<std::byte> bytes_ UZRAM_GUARDED_BY(mutex_);
  std::vector<bool> stored_ UZRAM_GUARDED_BY(mutex_);
  std::optional<std::pair<Op, Status>> fault_ UZRAM_GUARDED_BY(mutex_);
  Stats stats_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_FAKE_DEVICE_H_
