// The handshake of one connection ("Fixed newstyle negotiation" of the specification).
//
// What: answers options until the client enters the export, or is to be closed. The last answer,
// that
//   it is in, is left to the caller.
// Units: none. Ownership: borrows. Memory: an option's data is taken in place, 64 KiB at most.
// Threading: one thread. Errors: the reason why the connection ends, for the log; empty when that
// is
//   the client's good right (it left, or said ABORT).
#ifndef UZRAM_ATTACH_NBD_HANDSHAKE_H_
#define UZRAM_ATTACH_NBD_HANDSHAKE_H_

#include <string>
#include <tl/expected.hpp>

#include "attach/nbd/export.h"
#include "attach/nbd/stream.h"

namespace uzram::attach::nbd {

// `options_max` bounds the options of one client. Waits are bounded by the stream's deadline.
tl::expected<Session, std::string> negotiate(const Export& served, Stream& stream,
                                             unsigned options_max);

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_HANDSHAKE_H_
