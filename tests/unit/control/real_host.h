// A host with a real device and no attachments, for tests of the control plane.
//
// What: the life of a device as control/host.h has it, and a settable number of clients.
// Units: bytes. Ownership: owns its device. Threading: one thread at a time.
// Errors: as control/host.h; `init_refusal`, where set, is what `init` returns.
#ifndef UZRAM_TESTS_UNIT_CONTROL_REAL_HOST_H_
#define UZRAM_TESTS_UNIT_CONTROL_REAL_HOST_H_

#include <memory>
#include <optional>
#include <string>

#include "control/attributes.h"
#include "control/host.h"

namespace uzram::test {

class RealHost final : public control::Host {
 public:
  explicit RealHost(DeviceType type = DeviceType::zram) { options_.type = type; }

  std::shared_ptr<Device> device() const override { return device_; }
  DeviceOptions options() const override { return options_; }
  control::DeviceRecord record() const override {
    control::DeviceRecord record;
    record.name = "real";
    record.type = control::type_name(options_.type);
    record.algo = control::algorithm_of(options_);
    record.size_bytes = device_ ? device_->size_bytes() : 0;
    return record;
  }
  unsigned clients() const override { return clients_now; }
  Result<void> configure(const Change& change) override {
    if (device_) return fail(Status::busy, "running");
    DeviceOptions changed = options_;
    if (auto done = change(changed); !done) return done;
    options_ = changed;
    return {};
  }
  Result<void> limit_write_back(const WriteBackLimitsChange& change) override {
    if (!device_) {
      change.apply(options_.write_back);
      return {};
    }
    const Status set = device_->change_write_back_limits(change);
    return set == Status::ok ? Result<void>() : fail(set, "limits");
  }
  Result<void> init(std::uint64_t size_bytes) override {
    if (device_) return fail(Status::busy, "running");
    if (init_refusal) return tl::unexpected(*init_refusal);
    DeviceOptions wanted = options_;
    wanted.size_bytes = size_bytes;
    auto made = create_device(wanted);
    if (!made) return tl::unexpected(made.error());
    device_ = std::move(*made);
    return {};
  }
  Result<void> resize(std::uint64_t size_bytes) override {
    if (!device_) return fail(Status::no_device, "no size yet");
    return device_->resize(size_bytes);
  }
  Result<void> drop() override {
    if (clients_now != 0) return fail(Status::busy, "in use");
    const DeviceType type = options_.type;
    device_.reset();
    options_ = {};
    options_.type = type;
    return {};
  }
  Result<void> run_pass(const Pass& pass) override {
    if (!device_) return fail(Status::invalid_argument, "no size yet");
    if (pass_under_way) return fail(Status::would_block, "a pass is under way");
    return pass(*device_);
  }
  Result<void> reset(bool) override { return fail(Status::not_supported, "reset"); }
  Result<void> detach(std::string_view, bool) override {
    return fail(Status::not_supported, "detach");
  }
  Result<void> stop(bool) override { return fail(Status::not_supported, "stop"); }
  Result<control::AttachmentRecord> attach(std::string_view, std::string_view) override {
    return fail(Status::not_supported, "attach");
  }

  unsigned clients_now = 0;
  bool pass_under_way = false;
  std::optional<Error> init_refusal;

 private:
  DeviceOptions options_;
  std::shared_ptr<Device> device_;
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_UNIT_CONTROL_REAL_HOST_H_
