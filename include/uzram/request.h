// Requests to a device.
//
// What: one operation on a byte range, as front-ends submit it.
// Units: bytes. Any offset and length inside the device, no alignment asked.
// Ownership: the submitter owns the request and its buffer until `Device::submit` returns.
// Threading: a request and its buffer belong to one thread until `submit` returns. A front-end
// whose
//   peer shares the memory copies what it writes first: a page is looked at more than once.
// Errors: `status`, set for each request by `Device::submit`.
#ifndef UZRAM_REQUEST_H_
#define UZRAM_REQUEST_H_

#include <cstddef>
#include <cstdint>

#include "uzram/result.h"

namespace uzram {

enum class Op : std::uint8_t { read, write, discard, write_zeroes, flush };

// Bits of Request::flags.
// write_zeroes: keep the range allocated (NBD_CMD_FLAG_NO_HOLE); it reads zero either way.
inline constexpr std::uint8_t kNoHole = 1U << 0;
// any: end with would_block rather than wait for the backing store, as REQ_NOWAIT of the kernel's
// block layer. What a read filled is then worth nothing; a write or discard has changed some of its
// pages, or none, and the same request submitted again without the flag completes it.
inline constexpr std::uint8_t kNoWait = 1U << 1;

struct Request {
  Op op = Op::read;
  std::uint8_t flags = 0;
  Status status = Status::ok;  // out
  std::uint64_t offset = 0;    // bytes from the start of the device
  std::uint64_t length = 0;    // bytes; 0 is allowed and does nothing
  std::byte* data = nullptr;   // read: filled; write: read from, never changed; else unused
};

}  // namespace uzram

#endif  // UZRAM_REQUEST_H_
