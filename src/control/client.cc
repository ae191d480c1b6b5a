#include "control/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "control/device_record.h"
#include "control/json_rpc.h"
#include "control/methods.h"
#include "control/unix_socket.h"

namespace uzram::control {
namespace {

using Clock = std::chrono::steady_clock;

// False when nothing can be read before `deadline`.
bool wait_readable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled = {fd, POLLIN, 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Why nobody answers at the device's socket.
tl::unexpected<Error> explain_silence(const RuntimeDir& dir, std::string_view name, int error) {
  const std::string quoted = "'" + std::string(name) + "'";
  if (!dir.has_files(name)) return fail(Status::not_found, quoted + ": no such device");
  if (dir.lock_state(name) != LockState::held) {
    return fail(Status::io_error, quoted + ": is dead, its process has gone; 'uzram stop " +
                                      std::string(name) + "' clears it");
  }
  if (error == ENOENT || error == ECONNREFUSED) {
    return fail(Status::busy, quoted + ": is just starting or stopping");
  }
  return fail_errno(error, quoted);
}

tl::unexpected<Error> no_answer(std::chrono::milliseconds patience) {
  return fail(Status::io_error,
              "control socket: no answer within " + std::to_string(patience.count() / 1000) + " s");
}

}  // namespace

Result<Client> Client::connect(const RuntimeDir& dir, std::string_view name,
                               std::chrono::milliseconds patience) {
  const auto address = unix_address(dir.files(name).socket);
  if (!address) return tl::unexpected(address.error());
  auto client = open(*address, patience);
  if (!client && client.error() == EAGAIN) return no_answer(patience);
  if (!client) return explain_silence(dir, name, client.error());
  return std::move(*client);
}

tl::expected<Client, int> Client::open(const sockaddr_un& address,
                                       std::chrono::milliseconds patience) {
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return tl::unexpected(errno);
  // Connecting waits, too, where the process at the other end takes nobody in.
  const timeval bound = {patience.count() / 1000, patience.count() % 1000 * 1000};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound) != 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return tl::unexpected(errno);
  }
  return Client(std::move(socket), address, patience);
}

Result<nlohmann::json> Client::call(std::string_view method, const nlohmann::json& params) {
  if (auto sent = send(dump_line(make_request(1, method, params)) + "\n"); !sent) {
    return tl::unexpected(sent.error());
  }
  const auto reply = receive_line(takes_long(method, params));
  if (!reply) return tl::unexpected(reply.error());
  return parse_reply(*reply);
}

Result<void> Client::send(std::string_view line) {
  while (!line.empty()) {
    const ssize_t sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return no_answer(patience_);
    if (sent < 0) return fail_errno(errno, "control socket");
    line.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

bool Client::is_alive() const {
  auto other = open(address_, patience_);
  return other && other->call("device.info", nlohmann::json::object());
}

bool Client::wait_for_end(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::array<char, 256> dropped;
  for (;;) {
    if (!wait_readable(socket_.get(), deadline)) return false;
    const ssize_t got = ::recv(socket_.get(), dropped.data(), dropped.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return true;
  }
}

Result<std::string> Client::receive_line(bool takes_long) {
  auto deadline = Clock::now() + patience_;
  std::string line;
  std::array<char, 4096> buffer;
  // An error may quote the request whole.
  while (line.size() <= 2 * kLineBytesMax) {
    if (!wait_readable(socket_.get(), deadline)) {
      if (!takes_long || !is_alive()) return no_answer(patience_);
      deadline = Clock::now() + patience_;
      continue;
    }
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "control socket");
    if (got == 0) return fail(Status::io_error, "control socket: the device's process went away");
    line.append(buffer.data(), static_cast<std::size_t>(got));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return fail(Status::io_error, "control socket: an answer that is too long");
}

}  // namespace uzram::control
