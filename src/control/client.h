// The other end of a control socket: what the command line talks through.
//
// What: finds a device's process by the runtime directory and calls its methods.
// Units: milliseconds. Ownership: owns its connection. Threading: one thread.
// Errors: not_found (no such device), io_error (a dead device, no answer), or what the device said.
#ifndef UZRAM_CONTROL_CLIENT_H_
#define UZRAM_CONTROL_CLIENT_H_

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "control/runtime_dir.h"
#include "uzram/result.h"

namespace uzram::control {

class Client {
 public:
  static Result<Client> connect(const RuntimeDir& dir, std::string_view name);

  // The method's result. Waits as long as the slowest method (compaction) may take.
  Result<nlohmann::json> call(std::string_view method, const nlohmann::json& params);
  // Waits until the process at the other end has ended; false when it has not within `patience`.
  bool wait_for_end(std::chrono::milliseconds patience);

 private:
  explicit Client(base::Fd socket) : socket_(std::move(socket)) {}
  Result<std::string> receive_line(std::chrono::milliseconds patience);

  base::Fd socket_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_CLIENT_H_
