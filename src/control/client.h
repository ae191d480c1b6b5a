// The other end of a control socket: what the command line talks through.
//
// What: finds a device's process by the runtime directory and calls its methods. An answer has to
//   come within the client's patience; for a method that may take long it is enough that the
//   process, asked over another connection, still answers.
// Units: milliseconds. Ownership: owns its connection. Threading: one thread.
// Errors: not_found (no such device), io_error (a dead device, no answer), or what the device said.
#ifndef UZRAM_CONTROL_CLIENT_H_
#define UZRAM_CONTROL_CLIENT_H_

#include <sys/un.h>

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
  static constexpr std::chrono::milliseconds kPatience{60'000};

  // `patience` also bounds how long a process that hangs is waited for here.
  static Result<Client> connect(const RuntimeDir& dir, std::string_view name,
                                std::chrono::milliseconds patience = kPatience);

  // The method's result.
  Result<nlohmann::json> call(std::string_view method, const nlohmann::json& params);
  // Waits until the process at the other end has ended; false when it has not within `patience`.
  bool wait_for_end(std::chrono::milliseconds patience);

 private:
  Client(base::Fd socket, const sockaddr_un& address, std::chrono::milliseconds patience)
      : socket_(std::move(socket)), address_(address), patience_(patience) {}
  // The error is an errno.
  static tl::expected<Client, int> open(const sockaddr_un& address,
                                        std::chrono::milliseconds patience);
  Result<void> send(std::string_view line);
  Result<std::string> receive_line(bool takes_long);
  // Whether the process answers anybody.
  bool is_alive() const;

  base::Fd socket_;
  sockaddr_un address_;
  std::chrono::milliseconds patience_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_CLIENT_H_
