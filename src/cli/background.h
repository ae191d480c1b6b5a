// How a service leaves the terminal that started it.
//
// What: runs a service in a process of its own, without a terminal, and waits until it is usable.
//   A device's process and the sysfs-shaped tree are such services.
// Units: none. Ownership: none. Threading: called before the process has a second thread.
// Errors: as the outcome says.
#ifndef UZRAM_CLI_BACKGROUND_H_
#define UZRAM_CLI_BACKGROUND_H_

#include <functional>
#include <string>
#include <string_view>

#include "uzram/result.h"

namespace uzram::cli {

// Told once, when a service is usable, with lines for standard output. The service is taken down
// again where it fails.
using Ready = std::function<Result<void>(std::string_view lines)>;
// Serves until it is told to end and everything is gone; calls `ready` once it is usable.
using Service = std::function<Result<void>(const Ready& ready)>;

struct Outcome {
  // True in the new process, where it comes when the service has ended: the caller is to exit.
  bool in_service = false;
  int status = 0;          // exit status
  std::string error_line;  // for standard error; empty for status 0, and in the new process
};

// `what` names the service to people. In the calling process `print` gets the service's lines.
Outcome run_in_background(const std::string& what, const Service& service, const Ready& print);
// Reports the error, if there is one; the exit status.
int report(const Outcome& outcome);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_BACKGROUND_H_
