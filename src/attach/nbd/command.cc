#include "attach/nbd/command.h"

#include "attach/nbd/wire.h"

namespace uzram::attach::nbd {

Command load_command(const std::byte* at) noexcept {
  Command command;
  command.flags = load_be<std::uint16_t>(at + 4);
  command.type = load_be<std::uint16_t>(at + 6);
  command.cookie = load_be<std::uint64_t>(at + 8);
  command.offset = load_be<std::uint64_t>(at + 16);
  command.length = load_be<std::uint32_t>(at + 24);
  return command;
}

std::size_t put_reply_header(const Command& command, const Session& session, Status status,
                             std::size_t data_bytes, std::byte* to) noexcept {
  const std::uint32_t error = wire_error(status, command.type);
  const bool read = command.type == kCmdRead;
  // "Structured replies": READ must have them once they are agreed on, also for an error;
  // BLOCK_STATUS has no other answer. The rest stays with the shorter kind.
  if (!session.structured_replies || !(read || command.type == kCmdBlockStatus)) {
    store_be(to, kSimpleReplyMagic);
    store_be(to + 4, error);
    store_be(to + 8, command.cookie);
    return kSimpleReplyBytes;
  }
  std::uint16_t type = read ? kReplyOffsetData : kReplyBlockStatus;
  std::size_t extra = 0;  // payload bytes that stand in the header
  std::byte* const payload = to + kStructuredReplyBytes;
  if (error != 0) {
    type = kReplyError;
    store_be(payload, error);
    store_be(payload + 4, std::uint16_t{0});  // no text
    extra = 6;
  } else if (data_bytes == 0) {
    type = kReplyNone;  // a read of nothing: OFFSET_DATA must hold at least one byte
  } else if (read) {
    store_be(payload, command.offset);
    extra = sizeof command.offset;
  }
  const std::size_t data = error != 0 ? 0 : data_bytes;
  store_be(to, kStructuredReplyMagic);
  store_be(to + 4, kReplyFlagDone);
  store_be(to + 6, type);
  store_be(to + 8, command.cookie);
  store_be(to + 16, static_cast<std::uint32_t>(extra + data));
  return kStructuredReplyBytes + extra;
}

}  // namespace uzram::attach::nbd
