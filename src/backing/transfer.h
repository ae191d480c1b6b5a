// What every store does with a batch before and after its transfers.
//
// What: the check of a batch, the bounds, the status of an error.
// Units: Ios, bytes. Ownership, threading: values. Errors: none.
#ifndef UZRAM_BACKING_TRANSFER_H_
#define UZRAM_BACKING_TRANSFER_H_

#include <cerrno>
#include <cstddef>
#include <span>

#include "backing/store.h"

namespace uzram::backing {

inline constexpr unsigned kInFlightMax = 256;

// An Io that has been checked and not run. A store never ends one with this status.
inline constexpr Status kPending = Status::would_block;

// Ios that are well-formed become pending, others end. The number of pending ones.
inline std::size_t check_batch(std::span<Io> batch, std::uint64_t block_count) noexcept {
  std::size_t pending = 0;
  for (Io& io : batch) {
    io.uncertain = false;
    io.status = check_io(io, block_count);
    if (io.status != Status::ok) continue;
    io.status = kPending;
    ++pending;
  }
  return pending;
}

inline Status status_of_transfer(int error) noexcept {
  return error == ENOSPC || error == EDQUOT ? Status::no_space : Status::io_error;
}

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_TRANSFER_H_
