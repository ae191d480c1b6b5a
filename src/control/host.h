// What the control plane asks of the process that serves a device.
//
// What: the life of a device and the few acts that must know its attachments. A device is new (no
//   size yet, its options can be set) or running; `init` and `drop` lead from one to the other.
//   Implemented beside the attachments, so that control does not depend on them.
// Units: bytes. Ownership: the host outlives who calls it; it shares the device with whoever holds
//   a pointer to it.
// Threading: every function by any thread at any time. Acts (init, drop, reset, attach, detach,
//   stop, configure, limit_write_back) run one after the other, each for some seconds at most; the
//   others never wait.
// Errors: one line; nothing has changed where an act fails.
#ifndef UZRAM_CONTROL_HOST_H_
#define UZRAM_CONTROL_HOST_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "control/device_record.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::control {

class Host {
 public:
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // None while it is new. `drop` leaves to those who hold it a device that is empty.
  virtual std::shared_ptr<Device> device() const = 0;
  // What the next device is made with while it is new, what it was made with while it runs.
  virtual DeviceOptions options() const = 0;
  virtual DeviceRecord record() const = 0;
  // Clients of all attachments together.
  virtual unsigned clients() const = 0;

  // Lets `change` edit the options. Refused (busy) while running.
  using Change = std::function<Result<void>(DeviceOptions& options)>;
  virtual Result<void> configure(const Change& change) = 0;
  // What write-back may do: while running at once, else from the start on.
  virtual Result<void> limit_write_back(const WriteBackLimitsChange& change) = 0;
  // Makes the device and its attachments. Refused (busy) while running.
  virtual Result<void> init(std::uint64_t size_bytes) = 0;
  // Another size, for attachments too; all of it or nothing. no_device while it is new, busy where
  // data would be cut.
  virtual Result<void> resize(std::uint64_t size_bytes) = 0;
  // Ends attachments and device and sets all options back to their defaults; done at once where it
  // is new. Refused (busy) while clients have the device open.
  virtual Result<void> drop() = 0;
  // Runs an act that may take minutes, one at a time: would_block while another is under way,
  // invalid_argument while there is no device. `drop` and `stop` don't wait for it.
  using Pass = std::function<Result<void>(Device& device)>;
  virtual Result<void> run_pass(const Pass& pass) = 0;

  // Drops data and counters. Without `force`, refused (busy) while clients have the device open.
  virtual Result<void> reset(bool force) = 0;
  // Without `force`, refused (busy) where the attachment refuses: a block device that is mounted.
  virtual Result<void> detach(std::string_view kind, bool force) = 0;
  // Ends every attachment; the process ends soon after the call has been answered.
  virtual Result<void> stop(bool force) = 0;
  // `argument` is what follows the kind, empty where nothing does.
  virtual Result<AttachmentRecord> attach(std::string_view kind, std::string_view argument) = 0;

 protected:
  Host() = default;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_HOST_H_
