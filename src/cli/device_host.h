// A device with its attachments, as its process holds them: the Host that control calls act on.
//
// What: takes the device from new to running and back; starts, holds and ends attachments; keeps
//   the record in the runtime directory in step. Units: bytes.
// Ownership: owns attachments and its share of the device; the caller holds the device's lock.
// Threading: as control::Host; `bring_up` comes first, `shut_down` last.
// Errors: one line; nothing has changed where an act fails.
#ifndef UZRAM_CLI_DEVICE_HOST_H_
#define UZRAM_CLI_DEVICE_HOST_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "cli/attachments.h"
#include "cli/device_process.h"
#include "control/host.h"

namespace uzram::cli {

class DeviceHost final : public control::Host {
 public:
  static constexpr std::chrono::milliseconds kStorePatience{5'000};

  // `stop_event`, an eventfd, becomes readable once `stop` was accepted. The end of the device
  // waits `store_patience` for a backing store that does not answer.
  DeviceHost(const StartOptions& start, control::DeviceFiles files, base::Fd stop_event,
             std::chrono::milliseconds store_patience = kStorePatience);

  // Writes the record, then makes what was asked for: nothing where no size was given. The record
  // comes first, so that a process that is killed on the way is seen to have been here.
  Result<void> bring_up();
  // One line per attachment.
  std::string lines() const;
  int stop_event() const noexcept { return stop_event_.get(); }
  // Refuses all acts from now on and ends the attachments, by force where they are in use.
  void shut_down();

  std::shared_ptr<Device> device() const override;
  DeviceOptions options() const override;
  control::DeviceRecord record() const override;
  unsigned clients() const override;
  Result<void> configure(const Change& change) override;
  Result<void> limit_write_back(const WriteBackLimitsChange& change) override;
  Result<void> init(std::uint64_t size_bytes) override;
  Result<void> resize(std::uint64_t size_bytes) override;
  Result<void> drop() override;
  Result<void> run_pass(const Pass& pass) override;
  Result<void> reset(bool force) override;
  Result<void> detach(std::string_view kind, bool force) override;
  Result<void> stop(bool force) override;
  Result<control::AttachmentRecord> attach(std::string_view kind,
                                           std::string_view argument) override;

 private:
  // Copies share both: who asks an attachment something keeps it until it has been answered.
  struct Attached {
    AttachmentSpec spec;
    std::shared_ptr<Device> device;
    std::shared_ptr<attach::Attachment> way_in;  // goes before the device that it serves
  };
  using Attachments = std::vector<Attached>;

  static Attachments::const_iterator find(const Attachments& attachments, std::string_view kind);
  static control::AttachmentRecord record_of(const Attached& attached);
  Attachments attachments() const;
  std::shared_ptr<backing::Store> store() const;
  void give_up_store() const;
  DeviceOptions defaults() const;
  tl::unexpected<Error> fail_here(Status status, std::string_view why) const;
  Result<void> check_not_stopping() const UZRAM_REQUIRES(acts_);
  Result<std::shared_ptr<Device>> running() const UZRAM_REQUIRES(acts_);

  Result<void> start_one(const std::shared_ptr<Device>& device, const AttachmentSpec& spec,
                         Attachments& started) const UZRAM_REQUIRES(acts_);
  Result<Attachments> start_all(const std::shared_ptr<Device>& device,
                                const std::vector<AttachmentSpec>& specs, bool best) const
      UZRAM_REQUIRES(acts_);
  Result<void> open_store() UZRAM_REQUIRES(acts_);
  Result<void> make_device(std::uint64_t size_bytes, bool best) UZRAM_REQUIRES(acts_);
  void show(std::shared_ptr<Device> device, Attachments attachments) UZRAM_REQUIRES(acts_);
  Result<void> hold_all(const Attachments& attachments) const UZRAM_REQUIRES(acts_);
  Result<void> try_hold_all(const Attachments& attachments) const UZRAM_REQUIRES(acts_);
  static void release_all(const Attachments& attachments);
  Result<void> stop_all(bool force) UZRAM_REQUIRES(acts_);
  Result<void> tell_size() const UZRAM_REQUIRES(acts_);
  void forget(const Attached& attached) UZRAM_REQUIRES(acts_);
  Result<void> publish() const UZRAM_REQUIRES(acts_);

  const StartOptions start_;
  const control::DeviceFiles files_;
  const base::Fd stop_event_;
  const std::chrono::milliseconds store_patience_;
  // One act at a time; held over starting and ending attachments. Before mutex_.
  base::Mutex acts_;
  bool stopping_ UZRAM_GUARDED_BY(acts_) = false;
  base::Mutex pass_;  // held over a pass; only ever tried
  // What is shown to those who only ask; changed under both.
  mutable base::Mutex mutex_;
  DeviceOptions options_ UZRAM_GUARDED_BY(mutex_);
  std::shared_ptr<Device> device_ UZRAM_GUARDED_BY(mutex_);
  Attachments attachments_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::cli

#endif  // UZRAM_CLI_DEVICE_HOST_H_
