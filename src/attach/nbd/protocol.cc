#include "attach/nbd/protocol.h"

namespace uzram::attach::nbd {
namespace {

// The protocol fixes these numbers whatever the host's errno.h says; no other may be sent.
constexpr std::uint32_t kEperm = 1;
constexpr std::uint32_t kEio = 5;
constexpr std::uint32_t kEnomem = 12;
constexpr std::uint32_t kEinval = 22;
constexpr std::uint32_t kEnospc = 28;
constexpr std::uint32_t kEnotsup = 95;
constexpr std::uint32_t kEshutdown = 108;

}  // namespace

std::uint32_t wire_error(Status status, std::uint16_t command) noexcept {
  switch (status) {
    case Status::ok:
      return 0;
    case Status::invalid_argument:
      return kEinval;
    case Status::out_of_range:
      // A write past the end is a full disk; any other command there is a mistake of the client.
      return command == kCmdWrite || command == kCmdWriteZeroes ? kEnospc : kEinval;
    case Status::no_space:
      return kEnospc;
    case Status::no_memory:
      return kEnomem;
    case Status::not_supported:
      return kEnotsup;
    case Status::read_only:
    case Status::permission:
      return kEperm;
    case Status::shutting_down:
      return kEshutdown;
    case Status::io_error:
    case Status::would_block:
    case Status::busy:
    case Status::exists:
    case Status::not_found:
    case Status::no_device:
      return kEio;
  }
  return kEio;
}

}  // namespace uzram::attach::nbd
