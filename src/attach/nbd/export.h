// What the server offers, and what one client agreed on.
//
// What: the one export of a server, constant while it runs, and the outcome of one handshake.
// Units: bytes. Ownership: borrows the device. Threading: constant, shared by all connections.
// Errors: none.
#ifndef UZRAM_ATTACH_NBD_EXPORT_H_
#define UZRAM_ATTACH_NBD_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attach/nbd/protocol.h"
#include "uzram/device.h"

namespace uzram::attach::nbd {

struct Export {
  Device& device;
  std::string name;
  std::string description;
  bool read_only = false;
  std::uint32_t block_bytes_preferred = 4096;

  // "Default export": the empty name asks for it, and it is our only one.
  bool serves(std::string_view asked) const { return asked.empty() || asked == name; }

  std::uint16_t transmission_flags(bool structured_replies) const {
    // A flush orders nothing here: a write is in the device when it is answered, so what one
    // connection flushes covers all (kCanMultiConn).
    std::uint32_t flags = kHasFlags | kSendFlush | kSendFua | kCanMultiConn | kSendCache;
    flags |= read_only ? kReadOnly : kSendTrim | kSendWriteZeroes | kSendFastZero;
    if (structured_replies) flags |= kSendDf;
    return static_cast<std::uint16_t>(flags);
  }
};

struct Session {
  bool structured_replies = false;
  bool block_status = false;      // base:allocation was selected, for the export that was entered
  std::vector<std::byte> answer;  // tells the client that it is in; sent once it counts as such
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_EXPORT_H_
