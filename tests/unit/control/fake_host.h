// A host without attachments, for tests of the control plane.
//
// What: a running FakeDevice and a settable number of clients; acts are only noted. Units: bytes.
// Ownership: owns its device. Threading: one thread at a time, but for asking. Errors: `refusal`,
// where set, is what every act returns.
#ifndef UZRAM_TESTS_UNIT_CONTROL_FAKE_HOST_H_
#define UZRAM_TESTS_UNIT_CONTROL_FAKE_HOST_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/host.h"
#include "tests/support/fake_device.h"

namespace uzram::test {

class FakeHost final : public control::Host {
 public:
  static constexpr std::uint64_t kSizeBytes = 64 * kPageBytes;

  std::shared_ptr<Device> device() const override { return device_; }
  DeviceOptions options() const override { return device_->options(); }
  FakeDevice& fake_device() const { return *device_; }
  control::DeviceRecord record() const override {
    return {"fake", 4711, "ram", "-", kSizeBytes, 4096, false, {{"nbd", "nbd://here", "auto"}}};
  }
  unsigned clients() const override { return clients_now; }
  Result<void> configure(const Change&) override { return fail(Status::busy, "'fake': running"); }
  Result<void> limit_write_back(const WriteBackLimitsChange&) override { return act("limits"); }
  Result<void> init(std::uint64_t) override { return fail(Status::busy, "'fake': running"); }
  Result<void> resize(std::uint64_t size) override { return act("resize " + std::to_string(size)); }
  Result<void> drop() override {
    if (clients_now != 0) return fail(Status::busy, "'fake': in use");
    return act("drop");
  }
  Result<void> run_pass(const Pass& pass) override { return pass(*device_); }
  Result<void> reset(bool force) override {
    if (clients_now != 0 && !force) return fail(Status::busy, "'fake': in use");
    return act(force ? "reset!" : "reset");
  }
  Result<void> detach(std::string_view kind, bool force) override {
    return act("detach " + std::string(kind) + (force ? "!" : ""));
  }
  Result<void> stop(bool force) override { return act(force ? "stop!" : "stop"); }
  Result<control::AttachmentRecord> attach(std::string_view kind,
                                           std::string_view argument) override {
    const auto done = act("attach " + std::string(kind) + " " + std::string(argument));
    if (!done) return tl::unexpected(done.error());
    return control::AttachmentRecord{std::string(kind), "there", std::string(argument)};
  }

  unsigned clients_now = 0;
  std::optional<Error> refusal;
  std::vector<std::string> acts;  // what was done, in order

 private:
  Result<void> act(std::string what) {
    if (refusal) return tl::unexpected(*refusal);
    acts.push_back(std::move(what));
    return {};
  }

  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>(kSizeBytes);
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_UNIT_CONTROL_FAKE_HOST_H_
