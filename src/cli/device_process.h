// The process that serves one device.
//
// What: makes the device, its attachments and its control socket, and serves until SIGTERM, SIGINT
//   or device.stop. A DeviceHost (device_host.h) is the Host that the control server calls.
// Units: bytes. Ownership: owns host and server; holds the device's lock.
// Threading: `serve_device` runs on the process's only thread; the control server's threads call
//   the Host's functions.
// Errors: where serving cannot begin, one line, and nothing is left behind.
#ifndef UZRAM_CLI_DEVICE_PROCESS_H_
#define UZRAM_CLI_DEVICE_PROCESS_H_

#include <string>
#include <vector>

#include "cli/attachments.h"
#include "cli/background.h"
#include "control/runtime_dir.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::cli {

struct StartOptions {
  std::string name;
  DeviceOptions device;      // size_bytes 0: none yet, the device is new
  std::string backing = {};  // an absolute path or a URI; empty: none. `device.backing` is not used
  unsigned block_size = 4096;
  std::vector<AttachmentSpec> attachments;  // checked
  bool attach_auto = false;                 // and the best that this kernel has
};

// Serves the device; returns when it has been stopped and everything is gone. `ready` gets one line
// per attachment: the kind, a tab, where.
Result<void> serve_device(const StartOptions& options, const control::RuntimeDir& dir,
                          const Ready& ready);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_DEVICE_PROCESS_H_
