// A command of the transmission phase, and the header of its reply.
//
// What: requests taken off the wire, reply headers put on it. Units: bytes.
// Ownership: values. Threading: any. Errors: none; what a command may ask is the caller's to check.
#ifndef UZRAM_ATTACH_NBD_COMMAND_H_
#define UZRAM_ATTACH_NBD_COMMAND_H_

#include <cstddef>
#include <cstdint>

#include "attach/nbd/export.h"
#include "attach/nbd/protocol.h"
#include "uzram/result.h"

namespace uzram::attach::nbd {

struct Command {
  std::uint16_t flags = 0;
  std::uint16_t type = 0;
  std::uint64_t cookie = 0;  // the client's, sent back as it came
  std::uint64_t offset = 0;
  std::uint32_t length = 0;

  bool is_change() const noexcept {
    return type == kCmdWrite || type == kCmdTrim || type == kCmdWriteZeroes;
  }
  std::uint64_t end() const noexcept { return offset + length; }
  bool overlaps(const Command& other) const noexcept {
    return offset < other.end() && other.offset < end();
  }
};

// From kRequestBytes bytes, whose magic has been looked at.
Command load_command(const std::byte* at) noexcept;

inline constexpr std::size_t kReplyHeaderBytesMax = kStructuredReplyBytes + sizeof(std::uint64_t);

// Writes what stands before the `data_bytes` of a reply, or the whole of it where `status` tells an
// error; returns its length.
std::size_t put_reply_header(const Command& command, const Session& session, Status status,
                             std::size_t data_bytes, std::byte* to) noexcept;

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_COMMAND_H_
