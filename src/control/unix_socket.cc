#include "control/unix_socket.h"

#include <sys/socket.h>

#include <cstring>

namespace uzram::control {

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Status::invalid_argument, "'" + path + "': longer than the " +
                                              std::to_string(sizeof address.sun_path - 1) +
                                              " bytes of a Unix socket's path");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace uzram::control
