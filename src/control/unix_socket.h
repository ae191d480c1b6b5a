// Addresses of the control sockets.
//
// What: a Unix socket's address from its path. Units: none. Ownership: values. Threading: pure.
// Errors: invalid_argument for a path longer than the system takes.
#ifndef UZRAM_CONTROL_UNIX_SOCKET_H_
#define UZRAM_CONTROL_UNIX_SOCKET_H_

#include <sys/un.h>

#include <string>

#include "uzram/result.h"

namespace uzram::control {

Result<sockaddr_un> unix_address(const std::string& path);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_UNIX_SOCKET_H_
