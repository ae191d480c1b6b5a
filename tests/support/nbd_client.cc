#include "tests/support/nbd_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uzram::test {

namespace nbd = attach::nbd;

Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

Bytes bytes_of(const nbd::Writer& writer) {
  return {writer.view().begin(), writer.view().end()};
}

Bytes pattern(std::size_t length, std::uint64_t seed) {
  Bytes bytes(length);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::size_t at = 0; at < length; at += sizeof state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(bytes.data() + at, &state, std::min(sizeof state, length - at));
  }
  return bytes;
}

bool same(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

Bytes encode_option(std::uint32_t option, std::span<const std::byte> data) {
  nbd::Writer writer;
  writer.number(nbd::kOptionMagic).number(option);
  return bytes_of(writer.number(static_cast<std::uint32_t>(data.size())).bytes(data));
}

Bytes encode_go(std::string_view name, std::span<const std::uint16_t> infos) {
  nbd::Writer writer;
  writer.sized_text(name).number(static_cast<std::uint16_t>(infos.size()));
  for (const std::uint16_t info : infos) writer.number(info);
  return bytes_of(writer);
}

Bytes encode_contexts(std::string_view name, std::span<const std::string_view> queries) {
  nbd::Writer writer;
  writer.sized_text(name).number(static_cast<std::uint32_t>(queries.size()));
  for (const std::string_view query : queries) writer.sized_text(query);
  return bytes_of(writer);
}

Bytes encode_command(const Command& command, std::span<const std::byte> payload) {
  nbd::Writer writer;
  writer.number(nbd::kRequestMagic).number(command.flags).number(command.type);
  writer.number(command.cookie).number(command.offset).number(command.length);
  return bytes_of(writer.bytes(payload));
}

NbdClient::NbdClient(const std::string& socket_path)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  connect_to(&address, sizeof address);
}

NbdClient::NbdClient(std::uint16_t loopback_port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(loopback_port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect_to(&address, sizeof address);
}

void NbdClient::connect_to(const void* address, std::size_t length) {
  const timeval limit{10, 0};
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  connected_ = ::connect(socket_.get(), static_cast<const sockaddr*>(address),
                         static_cast<socklen_t>(length)) == 0;
}

bool NbdClient::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

Bytes NbdClient::receive(std::size_t length) {
  Bytes bytes(length);
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got = ::recv(socket_.get(), bytes.data() + done, length - done, 0);
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

bool NbdClient::at_end() {
  std::byte byte;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

void NbdClient::half_close() {
  ::shutdown(socket_.get(), SHUT_WR);
}

bool NbdClient::greet(std::uint32_t flags) {
  nbd::Writer expected;
  expected.text("NBDMAGICIHAVEOPT").number(std::uint16_t{3});
  if (receive(18) != bytes_of(expected)) return false;
  return send(bytes_of(nbd::Writer().number(flags)));
}

OptionReply NbdClient::receive_option_reply() {
  const Bytes header = receive(20);
  OptionReply reply;
  if (header.size() < 20 || nbd::load_be<std::uint64_t>(header.data()) != nbd::kOptionReplyMagic) {
    return reply;
  }
  reply.option = nbd::load_be<std::uint32_t>(header.data() + 8);
  reply.type = nbd::load_be<std::uint32_t>(header.data() + 12);
  reply.data = receive(nbd::load_be<std::uint32_t>(header.data() + 16));
  return reply;
}

std::vector<OptionReply> NbdClient::option(std::uint32_t option, std::span<const std::byte> data) {
  std::vector<OptionReply> replies;
  if (!send(encode_option(option, data))) return replies;
  do {
    replies.push_back(receive_option_reply());
  } while (replies.back().type > nbd::kRepAck && replies.back().type < nbd::kRepErrUnsup);
  return replies;
}

bool NbdClient::enter(bool structured, bool contexts, std::string_view name) {
  if (!greet()) return false;
  if (structured && option(nbd::kOptStructuredReply).back().type != nbd::kRepAck) return false;
  constexpr std::string_view kQueries[] = {"base:allocation"};
  if (contexts && option(nbd::kOptSetMetaContext, encode_contexts(name, kQueries)).size() != 2) {
    return false;
  }
  const auto replies = option(nbd::kOptGo, encode_go(name));
  return !replies.empty() && replies.back().type == nbd::kRepAck;
}

CommandReply NbdClient::receive_reply(std::size_t data_bytes) {
  CommandReply reply;
  const Bytes start = receive(16);  // both kinds have at least as much
  if (start.size() < 16) return reply;
  const auto magic = nbd::load_be<std::uint32_t>(start.data());
  reply.cookie = nbd::load_be<std::uint64_t>(start.data() + 8);
  if (magic == nbd::kSimpleReplyMagic) {
    reply.came = true;
    reply.error = nbd::load_be<std::uint32_t>(start.data() + 4);
    if (reply.error == 0) reply.data = receive(data_bytes);
    return reply;
  }
  if (magic != nbd::kStructuredReplyMagic) return reply;
  reply.came = reply.structured = true;
  reply.flags = nbd::load_be<std::uint16_t>(start.data() + 4);
  reply.type = nbd::load_be<std::uint16_t>(start.data() + 6);
  const Bytes length = receive(4);
  if (length.size() < 4) return {};
  reply.data = receive(nbd::load_be<std::uint32_t>(length.data()));
  if (reply.type == nbd::kReplyError && reply.data.size() >= 6) {
    reply.error = nbd::load_be<std::uint32_t>(reply.data.data());
    reply.data.clear();
  } else if (reply.type == nbd::kReplyOffsetData && reply.data.size() > 8) {
    reply.offset = nbd::load_be<std::uint64_t>(reply.data.data());
    reply.data.erase(reply.data.begin(), reply.data.begin() + 8);
  }
  return reply;
}

CommandReply NbdClient::command(const Command& command, std::span<const std::byte> payload) {
  if (!send(encode_command(command, payload))) return {};
  return receive_reply(command.type == nbd::kCmdRead ? command.length : 0);
}

}  // namespace uzram::test
