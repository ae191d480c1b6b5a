// What the control plane asks of the process that serves a device.
//
// What: the device and the few acts that need more than the device: those that must know its
//   attachments. Implemented beside the attachments, so that control does not depend on them.
// Units: none. Ownership: the host outlives the server that calls it.
// Threading: called by the server's thread alone.
// Errors: one line; nothing has changed where an act fails.
#ifndef UZRAM_CONTROL_HOST_H_
#define UZRAM_CONTROL_HOST_H_

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

  virtual Device& device() = 0;
  virtual DeviceRecord record() const = 0;
  // Clients of all attachments together.
  virtual unsigned clients() const = 0;

  // Without `force`, refused (busy) while clients have the device open.
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
