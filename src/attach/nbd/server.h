// Start here: a device exported over the NBD protocol.
//
// What: `start_nbd` listens on a Unix or a TCP socket and serves one device there, to many clients
// at
//   once, one thread for each. Fixed newstyle with simple and structured replies, base:allocation,
//   and every command but RESIZE; no TLS.
// Units: bytes, milliseconds. Ownership: the caller's device must outlive the attachment. Memory:
// at
//   most 33 MiB for each connection, touched only by large requests and given back when idle, and
//   34 MiB for requests that wait for the backing store.
// Threading: as Attachment says. Errors: one line naming the address and the rule.
#ifndef UZRAM_ATTACH_NBD_SERVER_H_
#define UZRAM_ATTACH_NBD_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "attach/attachment.h"
#include "attach/nbd/address.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::attach {

struct NbdOptions {
  NbdAddress address;
  std::string export_name;           // 1..4096 bytes; the empty name is served as well
  std::string description;           // for people, up to 4096 bytes
  bool read_only = false;            // a read-only device is served read-only in any case
  std::uint32_t block_bytes = 4096;  // announced as preferred: 512 or 4096; any range is served

  // Bounds on what clients may take.
  unsigned connections_max = 128;
  unsigned handshake_options_max = 32;
  std::chrono::milliseconds handshake_time{10'000};  // for the whole of it
  // Longest wait for a peer that stops in the middle of a request or doesn't read replies; how long
  // it may take over one follows from it (Stream::make).
  std::chrono::milliseconds stall_time{30'000};
  // How long stop() lets clients take the answers to what was received.
  std::chrono::milliseconds drain_time{2'000};
};

Result<std::unique_ptr<Attachment>> start_nbd(Device& device, const NbdOptions& options);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_NBD_SERVER_H_
