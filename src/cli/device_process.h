// The process that serves one device.
//
// What: makes the device, its attachments and its control socket, and serves until SIGTERM, SIGINT
//   or device.stop. A DeviceProcess is the Host that the control server calls.
// Units: bytes. Ownership: owns device, attachments and server; holds the device's lock.
// Threading: `serve_device` runs on the process's only thread; the control server's thread calls
// the
//   Host's functions, one at a time.
// Errors: where serving cannot begin, one line, and nothing is left behind.
#ifndef UZRAM_CLI_DEVICE_PROCESS_H_
#define UZRAM_CLI_DEVICE_PROCESS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/attachments.h"
#include "control/runtime_dir.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::cli {

struct StartOptions {
  std::string name;
  DeviceOptions device;
  unsigned block_size = 4096;
  std::vector<AttachmentSpec> attachments;  // checked
  bool attach_auto = false;                 // and the best that this kernel has
};

// Told once, when the device is usable: one line per attachment, the kind, a tab, where. The device
// is taken down again where it fails.
using Ready = std::function<Result<void>(std::string_view lines)>;

// Serves the device; returns when it has been stopped and everything is gone.
Result<void> serve_device(const StartOptions& options, const control::RuntimeDir& dir,
                          const Ready& ready);

// The same in a process of its own, without a terminal. Returns, in the calling process, when the
// device is usable and `options`' lines have been printed, or has failed to become so; the exit
// status. In the new process it returns when the device has been stopped.
int serve_in_background(const StartOptions& options, const control::RuntimeDir& dir);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_DEVICE_PROCESS_H_
