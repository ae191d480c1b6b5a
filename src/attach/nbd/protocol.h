// The NBD protocol's numbers, under the names of its specification.
//
// What: constants of doc/proto.md of the Network Block Device project; only those that this server
//   knows. Units: as on the wire, big-endian. Ownership, threading: constants. Errors: `wire_error`
//   is the one place where a Status becomes an error number of the protocol.
#ifndef UZRAM_ATTACH_NBD_PROTOCOL_H_
#define UZRAM_ATTACH_NBD_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

#include "uzram/result.h"

namespace uzram::attach::nbd {

// "Newstyle negotiation"
inline constexpr std::uint64_t kMagic = 0x4e42444d41474943;        // "NBDMAGIC"
inline constexpr std::uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
inline constexpr std::uint64_t kOptionReplyMagic = 0x0003e889045565a9;
inline constexpr std::uint16_t kFlagFixedNewstyle = 1U << 0;
inline constexpr std::uint16_t kFlagNoZeroes = 1U << 1;
inline constexpr std::size_t kStringMax = 4096;  // "Values": longest string of either side

// "Option types"
inline constexpr std::uint32_t kOptExportName = 1;
inline constexpr std::uint32_t kOptAbort = 2;
inline constexpr std::uint32_t kOptList = 3;
inline constexpr std::uint32_t kOptStartTls = 5;
inline constexpr std::uint32_t kOptInfo = 6;
inline constexpr std::uint32_t kOptGo = 7;
inline constexpr std::uint32_t kOptStructuredReply = 8;
inline constexpr std::uint32_t kOptListMetaContext = 9;
inline constexpr std::uint32_t kOptSetMetaContext = 10;

// "Option reply types"
inline constexpr std::uint32_t kRepAck = 1;
inline constexpr std::uint32_t kRepServer = 2;
inline constexpr std::uint32_t kRepInfo = 3;
inline constexpr std::uint32_t kRepMetaContext = 4;
inline constexpr std::uint32_t kRepErrUnsup = 0x80000001;
inline constexpr std::uint32_t kRepErrInvalid = 0x80000003;
inline constexpr std::uint32_t kRepErrUnknown = 0x80000006;
inline constexpr std::uint32_t kRepErrTooBig = 0x80000009;

// "NBD_REP_INFO"
inline constexpr std::uint16_t kInfoExport = 0;
inline constexpr std::uint16_t kInfoName = 1;
inline constexpr std::uint16_t kInfoDescription = 2;
inline constexpr std::uint16_t kInfoBlockSize = 3;

// "Transmission flags"
inline constexpr std::uint16_t kHasFlags = 1U << 0;
inline constexpr std::uint16_t kReadOnly = 1U << 1;
inline constexpr std::uint16_t kSendFlush = 1U << 2;
inline constexpr std::uint16_t kSendFua = 1U << 3;
inline constexpr std::uint16_t kSendTrim = 1U << 5;
inline constexpr std::uint16_t kSendWriteZeroes = 1U << 6;
inline constexpr std::uint16_t kSendDf = 1U << 7;
inline constexpr std::uint16_t kCanMultiConn = 1U << 8;
inline constexpr std::uint16_t kSendCache = 1U << 10;
inline constexpr std::uint16_t kSendFastZero = 1U << 11;

// "Request types" and "Command flags"
inline constexpr std::uint32_t kRequestMagic = 0x25609513;
inline constexpr std::size_t kRequestBytes = 28;
inline constexpr std::uint16_t kCmdRead = 0;
inline constexpr std::uint16_t kCmdWrite = 1;
inline constexpr std::uint16_t kCmdDisc = 2;
inline constexpr std::uint16_t kCmdFlush = 3;
inline constexpr std::uint16_t kCmdTrim = 4;
inline constexpr std::uint16_t kCmdCache = 5;
inline constexpr std::uint16_t kCmdWriteZeroes = 6;
inline constexpr std::uint16_t kCmdBlockStatus = 7;
inline constexpr std::uint16_t kCmdFlagFua = 1U << 0;
inline constexpr std::uint16_t kCmdFlagNoHole = 1U << 1;
inline constexpr std::uint16_t kCmdFlagDf = 1U << 2;
inline constexpr std::uint16_t kCmdFlagReqOne = 1U << 3;
inline constexpr std::uint16_t kCmdFlagFastZero = 1U << 4;

// "Simple reply message" and "Structured reply chunk message"
inline constexpr std::uint32_t kSimpleReplyMagic = 0x67446698;
inline constexpr std::uint32_t kStructuredReplyMagic = 0x668e33ef;
inline constexpr std::size_t kSimpleReplyBytes = 16;
inline constexpr std::size_t kStructuredReplyBytes = 20;
inline constexpr std::uint16_t kReplyFlagDone = 1U << 0;
inline constexpr std::uint16_t kReplyNone = 0;
inline constexpr std::uint16_t kReplyOffsetData = 1;
inline constexpr std::uint16_t kReplyBlockStatus = 5;
inline constexpr std::uint16_t kReplyError = 32769;

// "base:allocation metadata context"
inline constexpr char kAllocationContext[] = "base:allocation";
inline constexpr std::uint32_t kAllocationContextId = 1;
inline constexpr std::uint32_t kStateHole = 1U << 0;
inline constexpr std::uint32_t kStateZero = 1U << 1;

// "Block size constraints": the longest payload of a READ or a WRITE, as announced. 32 MiB is what
// a client may assume of a server that says nothing.
inline constexpr std::uint32_t kPayloadBytesMax = std::uint32_t{32} << 20;

// "Error values": what a client is told when `command` ended with `status`; 0 for ok.
std::uint32_t wire_error(Status status, std::uint16_t command) noexcept;

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_PROTOCOL_H_
