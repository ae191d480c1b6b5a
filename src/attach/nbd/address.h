// Where an NBD server listens.
//
// What: the parsed form of `unix:PATH` and `tcp:HOST:PORT`, and the URI that clients open.
// Units: none. Ownership: values. Threading: pure, but for the working directory that a relative
//   path starts from. Errors: invalid_argument, naming the value and the rule.
#ifndef UZRAM_ATTACH_NBD_ADDRESS_H_
#define UZRAM_ATTACH_NBD_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "uzram/result.h"

namespace uzram::attach {

struct NbdAddress {
  enum class Kind : std::uint8_t { unix_socket, tcp };
  Kind kind = Kind::unix_socket;
  std::string path;        // unix_socket: absolute, fits a socket address
  std::string host;        // tcp: a name or an address, IPv6 without brackets
  std::uint16_t port = 0;  // tcp; 0: the system chooses
};

// `unix:PATH` or `tcp:HOST:PORT`, an IPv6 HOST in brackets. A relative path is made absolute.
Result<NbdAddress> parse_nbd_address(std::string_view text);

// The address as `parse_nbd_address` takes it, for messages.
std::string to_string(const NbdAddress& address);

// nbd+unix:///NAME?socket=PATH or nbd://HOST:PORT/NAME, as libnbd and QEMU take it.
std::string nbd_uri(const NbdAddress& address, std::string_view export_name);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_NBD_ADDRESS_H_
