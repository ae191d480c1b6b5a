// A backing store in an NBD export.
//
// What: one connection and one thread that moves all commands over it, so that a slow one holds up
//   no other. What a server forgets when it is started again, the store does not notice: who needs
//   to know checks what it reads.
// Units, ownership, threading: as backing/store.h says.
// Errors: when the connection ends, what is in flight fails with io_error, and so does what comes
//   later until the export answers again; it is tried at most once in a second, and only when
//   somebody wants something. A server that keeps the connection and does not answer is waited for,
//   until `shut_down`.
#ifndef UZRAM_BACKING_NBD_STORE_H_
#define UZRAM_BACKING_NBD_STORE_H_

#include <chrono>
#include <memory>
#include <string>

#include "backing/store.h"

namespace uzram::backing {

inline constexpr std::chrono::milliseconds kConnectTimeMax{10'000};

// `uri` is nbd:// or nbd+unix://. The time is for connecting, after names are resolved.
Result<std::unique_ptr<Store>> open_nbd_store(
    const std::string& uri, std::chrono::milliseconds connect_time_max = kConnectTimeMax);

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_NBD_STORE_H_
