// A raw NBD client for tests: it can send anything, also what no client should.
//
// What: bytes in and out of one connection, and the usual messages built and taken apart.
// Units: bytes. Ownership: owns its socket. Threading: one thread. Errors: a peer that closes or
//   keeps silent for ten seconds gives short answers, which the caller's expectations catch.
#ifndef UZRAM_TESTS_SUPPORT_NBD_CLIENT_H_
#define UZRAM_TESTS_SUPPORT_NBD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attach/nbd/protocol.h"
#include "attach/nbd/wire.h"
#include "base/fd.h"

namespace uzram::test {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text);
Bytes bytes_of(const attach::nbd::Writer& writer);
// `length` bytes that depend on `seed` and on their place.
Bytes pattern(std::size_t length, std::uint64_t seed);
// As ==, but quick on megabytes in sanitizer builds too.
bool same(std::span<const std::byte> one, std::span<const std::byte> other);

struct OptionReply {
  std::uint32_t option = 0;
  std::uint32_t type = 0;  // 0: nothing came
  Bytes data;
};

struct CommandReply {
  bool came = false;
  bool structured = false;
  std::uint32_t error = 0;
  std::uint64_t cookie = 0;
  std::uint16_t flags = 0, type = 0;  // structured only
  std::uint64_t offset = 0;           // OFFSET_DATA only
  Bytes data;                         // of a read, or descriptors of a block status
};

struct Command {
  std::uint16_t type = attach::nbd::kCmdRead;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint16_t flags = 0;
  std::uint64_t cookie = 0;
};

Bytes encode_option(std::uint32_t option, std::span<const std::byte> data);
// The data of INFO and GO.
Bytes encode_go(std::string_view name, std::span<const std::uint16_t> infos = {});
// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
Bytes encode_contexts(std::string_view name, std::span<const std::string_view> queries);
Bytes encode_command(const Command& command, std::span<const std::byte> payload = {});

class NbdClient {
 public:
  explicit NbdClient(const std::string& socket_path);
  explicit NbdClient(std::uint16_t loopback_port);

  int fd() const { return socket_.get(); }
  bool connected() const { return connected_; }
  // False when the peer closed.
  bool send(std::span<const std::byte> bytes);
  // Exactly `length` bytes; fewer when the peer closed or kept silent.
  Bytes receive(std::size_t length);
  // True when the peer closes without having sent anything more.
  bool at_end();
  void half_close();
  void close() { socket_.reset(); }

  // The server's greeting and our flags. False when the greeting is not what it should be.
  bool greet(std::uint32_t flags = 3);
  OptionReply receive_option_reply();
  // Sends an option; all replies up to the one that ends it.
  std::vector<OptionReply> option(std::uint32_t option, std::span<const std::byte> data = {});
  // From the connect to the transmission phase.
  bool enter(bool structured, bool contexts = false, std::string_view name = "");

  // `data_bytes`: what a simple reply carries if it tells no error.
  CommandReply receive_reply(std::size_t data_bytes = 0);
  CommandReply command(const Command& command, std::span<const std::byte> payload = {});

 private:
  void connect_to(const void* address, std::size_t length);

  base::Fd socket_;
  bool connected_ = false;
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_NBD_CLIENT_H_
