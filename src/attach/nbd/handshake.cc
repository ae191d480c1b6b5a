#include "attach/nbd/handshake.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attach/nbd/protocol.h"
#include "attach/nbd/wire.h"

namespace uzram::attach::nbd {
namespace {

// More than any option that we know needs: strings of 4096 bytes and a list of queries.
constexpr std::uint32_t kOptionBytesMax = 64U << 10;
constexpr std::size_t kOptionHeaderBytes = 16;
constexpr std::size_t kExportNameZeroes = 124;

// What the negotiation does after an option.
enum class Next { option, transmission, close };

class Handshake {
 public:
  Handshake(const Export& served, Stream& stream) : export_(served), stream_(stream) {}

  tl::expected<Session, std::string> run(unsigned options_max);

 private:
  bool greet();
  Next answer(std::uint32_t option, std::span<const std::byte> data);
  Next export_name(std::span<const std::byte> data);
  Next list(std::uint32_t option);
  Next info_or_go(std::uint32_t option, Reader data);
  bool send_info(std::uint32_t option, std::uint16_t info);
  Next meta_context(std::uint32_t option, Reader data);

  static Writer reply_to(std::uint32_t option, std::uint32_t type,
                         std::span<const std::byte> data = {});
  bool reply(std::uint32_t option, std::uint32_t type, std::span<const std::byte> data = {});
  // An error reply with text for people, after which the negotiation goes on.
  Next refuse(std::uint32_t option, std::uint32_t type, std::string_view text);
  Next acknowledge(std::uint32_t option);
  Next enter(const Writer& answer) {
    session_.answer.assign(answer.view().begin(), answer.view().end());
    return Next::transmission;
  }
  Next close(std::string why) {
    why_ = std::move(why);
    return Next::close;
  }

  const Export& export_;
  Stream& stream_;
  Session session_;
  std::string context_export_;  // for which SET_META_CONTEXT selected
  bool fixed_ = false;          // the client knows option replies
  bool no_zeroes_ = false;
  std::string why_;
};

tl::expected<Session, std::string> Handshake::run(unsigned options_max) {
  if (!greet()) return tl::unexpected(why_.empty() ? stream_.why() : why_);
  for (unsigned options = 0; options < options_max; ++options) {
    if (!stream_.receive_until(kOptionHeaderBytes)) return tl::unexpected(stream_.why());
    Reader header(stream_.pending().first(kOptionHeaderBytes));
    const auto magic = header.number<std::uint64_t>();
    const auto option = header.number<std::uint32_t>();
    const auto length = header.number<std::uint32_t>();
    if (magic != kOptionMagic) return tl::unexpected<std::string>("an option has a wrong magic");
    if (*length > kOptionBytesMax) {
      return tl::unexpected("option " + std::to_string(*option) + " is " + std::to_string(*length) +
                            " bytes long");
    }
    if (!stream_.receive_until(kOptionHeaderBytes + *length)) {
      return tl::unexpected(stream_.why());
    }
    const auto data = stream_.pending().subspan(kOptionHeaderBytes, *length);
    const Next next = answer(*option, data);
    stream_.consume(kOptionHeaderBytes + *length);
    if (next == Next::transmission) return session_;
    if (next == Next::close) return tl::unexpected(why_.empty() ? stream_.why() : why_);
  }
  return tl::unexpected("more than " + std::to_string(options_max) + " options");
}

bool Handshake::greet() {
  Writer greeting;
  greeting.number(kMagic).number(kOptionMagic);
  greeting.number<std::uint16_t>(kFlagFixedNewstyle | kFlagNoZeroes);
  if (!stream_.send(greeting.view()) || !stream_.receive_until(sizeof(std::uint32_t))) return false;
  const auto flags = load_be<std::uint32_t>(stream_.pending().data());
  stream_.consume(sizeof flags);
  fixed_ = (flags & kFlagFixedNewstyle) != 0;
  no_zeroes_ = (flags & kFlagNoZeroes) != 0;
  // "Client flags": a server must drop a client that sets what it does not know.
  if ((flags & ~std::uint32_t{kFlagFixedNewstyle | kFlagNoZeroes}) != 0) {
    why_ = "unknown client flags";
    return false;
  }
  return true;
}

Next Handshake::answer(std::uint32_t option, std::span<const std::byte> data) {
  // "Newstyle negotiation": a client that is not of the fixed kind can do no more than this.
  if (!fixed_ && option != kOptExportName) return close("an option before fixed newstyle");
  switch (option) {
    case kOptExportName:
      return export_name(data);
    case kOptAbort:
      // The client may be gone before it reads the answer.
      (void)reply(option, kRepAck);
      return Next::close;
    case kOptList:
      if (!data.empty()) return refuse(option, kRepErrInvalid, "LIST takes no data");
      return list(option);
    case kOptStartTls:
      if (!data.empty()) return refuse(option, kRepErrInvalid, "STARTTLS takes no data");
      return refuse(option, kRepErrUnsup, "TLS is not served");
    case kOptInfo:
    case kOptGo:
      return info_or_go(option, Reader(data));
    case kOptStructuredReply:
      if (!data.empty()) return refuse(option, kRepErrInvalid, "STRUCTURED_REPLY takes no data");
      session_.structured_replies = true;
      return acknowledge(option);
    case kOptListMetaContext:
    case kOptSetMetaContext:
      return meta_context(option, Reader(data));
    default:
      return refuse(option, kRepErrUnsup, "unknown option");
  }
}

// "NBD_OPT_EXPORT_NAME": closing is its only way to say no.
Next Handshake::export_name(std::span<const std::byte> data) {
  const auto name = Reader(data).text(data.size());
  if (!export_.serves(*name)) return close("no export of that name");
  session_.block_status = session_.block_status && context_export_ == *name;
  Writer answer;
  answer.number(export_.device.size_bytes());
  answer.number(export_.transmission_flags(session_.structured_replies));
  constexpr std::byte kZeroes[kExportNameZeroes]{};
  if (!no_zeroes_) answer.bytes(kZeroes);
  return enter(answer);
}

Next Handshake::list(std::uint32_t option) {
  Writer server;
  server.sized_text(export_.name).text(export_.description);
  return reply(option, kRepServer, server.view()) ? acknowledge(option) : Next::close;
}

// "NBD_OPT_INFO and NBD_OPT_GO"
Next Handshake::info_or_go(std::uint32_t option, Reader data) {
  const auto name = data.sized_text();
  const auto count = name ? data.number<std::uint16_t>() : std::nullopt;
  if (!count || data.left() != *count * sizeof(std::uint16_t)) {
    return refuse(option, kRepErrInvalid, "the lengths in the option don't add up");
  }
  if (name->size() > kStringMax) {
    return refuse(option, kRepErrTooBig, "a name has at most 4096 bytes");
  }
  if (!export_.serves(*name)) return refuse(option, kRepErrUnknown, "no export of that name");

  bool asked[kInfoBlockSize + 1] = {};
  for (unsigned i = 0; i < *count; ++i) {
    const auto info = data.number<std::uint16_t>();
    if (*info <= kInfoBlockSize) asked[*info] = true;  // unknown ones are ignored
  }
  asked[kInfoExport] = true;
  for (std::uint16_t info = kInfoExport; info <= kInfoBlockSize; ++info) {
    if (asked[info] && !send_info(option, info)) return Next::close;
  }
  if (option == kOptInfo) return acknowledge(option);
  // Contexts belong to the export that they were selected for.
  session_.block_status = session_.block_status && context_export_ == *name;
  return enter(reply_to(option, kRepAck));
}

bool Handshake::send_info(std::uint32_t option, std::uint16_t info) {
  Writer answer;
  answer.number(info);
  switch (info) {
    case kInfoExport:
      answer.number(export_.device.size_bytes());
      answer.number(export_.transmission_flags(session_.structured_replies));
      break;
    case kInfoName:
      answer.text(export_.name);
      break;
    case kInfoDescription:
      if (export_.description.empty()) return true;
      answer.text(export_.description);
      break;
    default:
      answer.number<std::uint32_t>(1).number(export_.block_bytes_preferred);
      answer.number(kPayloadBytesMax);
      break;
  }
  return reply(option, kRepInfo, answer.view());
}

// "NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT"
Next Handshake::meta_context(std::uint32_t option, Reader data) {
  const bool set = option == kOptSetMetaContext;
  if (set) session_.block_status = false;  // also when this one fails
  if (!session_.structured_replies) {
    return refuse(option, kRepErrInvalid, "structured replies come first");
  }
  const auto name = data.sized_text();
  const auto count = name ? data.number<std::uint32_t>() : std::nullopt;
  if (!count) return refuse(option, kRepErrInvalid, "the lengths in the option don't add up");
  bool wanted = !set && *count == 0;            // a list without queries asks for everything
  for (std::uint32_t i = 0; i < *count; ++i) {  // ends with the data, whatever the count says
    const auto query = data.sized_text();
    if (!query) return refuse(option, kRepErrInvalid, "the lengths in the option don't add up");
    if (query->size() > kStringMax) {
      return refuse(option, kRepErrTooBig, "a query has at most 4096 bytes");
    }
    wanted = wanted || *query == kAllocationContext || (!set && *query == "base:");
  }
  if (data.left() != 0) {
    return refuse(option, kRepErrInvalid, "the lengths in the option don't add up");
  }
  if (name->size() > kStringMax) {
    return refuse(option, kRepErrTooBig, "a name has at most 4096 bytes");
  }
  if (!export_.serves(*name)) return refuse(option, kRepErrUnknown, "no export of that name");
  if (wanted) {
    Writer context;
    context.number(set ? kAllocationContextId : 0U).text(kAllocationContext);
    if (!reply(option, kRepMetaContext, context.view())) return Next::close;
  }
  if (set) {
    session_.block_status = wanted;
    context_export_ = *name;
  }
  return acknowledge(option);
}

Writer Handshake::reply_to(std::uint32_t option, std::uint32_t type,
                           std::span<const std::byte> data) {
  Writer message;
  message.number(kOptionReplyMagic).number(option).number(type);
  message.number(static_cast<std::uint32_t>(data.size())).bytes(data);
  return message;
}

bool Handshake::reply(std::uint32_t option, std::uint32_t type, std::span<const std::byte> data) {
  return stream_.send(reply_to(option, type, data).view());
}

Next Handshake::refuse(std::uint32_t option, std::uint32_t type, std::string_view text) {
  const bool sent = reply(option, type, std::as_bytes(std::span(text.data(), text.size())));
  return sent ? Next::option : Next::close;
}

Next Handshake::acknowledge(std::uint32_t option) {
  return reply(option, kRepAck) ? Next::option : Next::close;
}

}  // namespace

tl::expected<Session, std::string> negotiate(const Export& served, Stream& stream,
                                             unsigned options_max) {
  return Handshake(served, stream).run(options_max);
}

}  // namespace uzram::attach::nbd
