#include "backing/nbd_connection.h"

#include <libnbd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "backing/store.h"

namespace uzram::backing {
namespace {

// What a server takes that does not tell its own limit.
constexpr std::size_t kPayloadBytesMax = std::size_t{32} << 20U;
constexpr std::size_t kTrimBytesMax = std::size_t{1} << 30U;

tl::unexpected<Error> fail_nbd(const std::string& uri, int error, const std::string& text) {
  return fail(error == 0 ? Status::io_error : status_of_errno(error), uri + ": " + text);
}

}  // namespace

Result<std::unique_ptr<NbdConnection>> NbdConnection::connect(const std::string& uri,
                                                              std::chrono::milliseconds time_max,
                                                              int cancel_fd) {
  nbd_handle* const handle = ::nbd_create();
  if (handle == nullptr) return fail_nbd(uri, ::nbd_get_errno(), ::nbd_get_error());
  std::unique_ptr<NbdConnection> connection(new NbdConnection(handle));
  Result<void> done = connection->handshake(uri, time_max, cancel_fd);
  if (done) done = connection->check_export(uri);
  if (!done) return tl::unexpected<Error>(std::move(done.error()));
  connection->keep_alive();
  return connection;
}

NbdConnection::~NbdConnection() {
  // The farewell goes out if the socket takes it at once; nobody waits for a server that hangs.
  if (::nbd_aio_is_ready(handle_) == 1) (void)::nbd_aio_disconnect(handle_, 0);
  ::nbd_close(handle_);
}

Result<void> NbdConnection::handshake(const std::string& uri, std::chrono::milliseconds time_max,
                                      int cancel_fd) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + time_max;
  constexpr auto kTransports = LIBNBD_ALLOW_TRANSPORT_TCP | LIBNBD_ALLOW_TRANSPORT_UNIX;
  if (::nbd_set_uri_allow_transports(handle_, kTransports) != 0 ||
      ::nbd_set_uri_allow_tls(handle_, LIBNBD_TLS_DISABLE) != 0 ||
      ::nbd_set_uri_allow_local_file(handle_, false) != 0 ||
      ::nbd_aio_connect_uri(handle_, uri.c_str()) != 0) {
    return fail_nbd(uri, ::nbd_get_errno(), ::nbd_get_error());
  }
  while (::nbd_aio_is_ready(handle_) != 1) {
    if (!alive()) {
      return fail_nbd(uri, last_errno_, last_error_.empty() ? "connection closed" : last_error_);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return fail(Status::io_error,
                  uri + ": no answer within " + std::to_string(time_max.count()) + " ms");
    }
    pollfd cancelled{cancel_fd, POLLIN, 0};
    if (::poll(&cancelled, 1, 0) > 0) return fail(Status::io_error, uri + ": given up");
    wait(cancel_fd, static_cast<int>(left));
  }
  return {};
}

Result<void> NbdConnection::check_export(const std::string& uri) {
  const std::int64_t size = ::nbd_get_size(handle_);
  const std::int64_t block_min = ::nbd_get_block_size(handle_, LIBNBD_SIZE_MINIMUM);
  const std::int64_t payload_max = ::nbd_get_block_size(handle_, LIBNBD_SIZE_MAXIMUM);
  if (size < 0 || block_min < 0 || payload_max < 0) {
    return fail_nbd(uri, ::nbd_get_errno(), ::nbd_get_error());
  }
  size_bytes_ = static_cast<std::uint64_t>(size);
  if (::nbd_is_read_only(handle_) != 0) return fail(Status::read_only, uri + ": read-only");
  if (size_bytes_ < kBlockBytes) {
    return fail(Status::invalid_argument, uri + ": " + std::to_string(size_bytes_) +
                                              " bytes, less than one block of " +
                                              std::to_string(kBlockBytes));
  }
  if (static_cast<std::uint64_t>(block_min) > kBlockBytes) {
    return fail(Status::invalid_argument,
                uri + ": takes only requests of " + std::to_string(block_min) + " bytes or more");
  }
  payload_max_ = kPayloadBytesMax;
  if (payload_max > 0) payload_max_ = std::min(payload_max_, static_cast<std::size_t>(payload_max));
  payload_max_ -= payload_max_ % kBlockBytes;
  if (payload_max_ == 0) {
    return fail(Status::invalid_argument,
                uri + ": takes only requests of " + std::to_string(payload_max) + " bytes or less");
  }
  can_trim_ = ::nbd_can_trim(handle_) == 1;
  return {};
}

// So that a host that is gone without a word is noticed after half a minute. No such thing on a
// Unix socket, which refuses the options.
void NbdConnection::keep_alive() const noexcept {
  const int socket = ::nbd_aio_get_fd(handle_);
  const auto set = [socket](int level, int name, int value) {
    (void)::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

std::size_t NbdConnection::length_max(Op op) const noexcept {
  return op == Op::trim ? kTrimBytesMax : payload_max_;
}

int NbdConnection::on_completion(void* command, int* error) noexcept {
  auto& done = *static_cast<Command*>(command);
  done.connection->finish(done, *error);
  return 1;  // libnbd may forget it
}

void NbdConnection::finish(Command& command, int error) noexcept {
  command.finished = true;
  command.error = error;
  command.next = finished_;
  finished_ = &command;
}

void NbdConnection::issue(Command& command) noexcept {
  command.connection = this;
  command.finished = false;
  const nbd_completion_callback callback{&on_completion, &command, nullptr};
  std::int64_t cookie = -1;
  switch (command.op) {
    case Op::read:
      cookie = ::nbd_aio_pread(handle_, command.data, command.length, command.offset, callback, 0);
      break;
    case Op::write:
      cookie = ::nbd_aio_pwrite(handle_, command.data, command.length, command.offset, callback, 0);
      break;
    case Op::trim:
      cookie = ::nbd_aio_trim(handle_, command.length, command.offset, callback, 0);
      break;
  }
  if (cookie < 0 && !command.finished) finish(command, EIO);
}

NbdConnection::Command* NbdConnection::take_finished() noexcept {
  Command* const command = finished_;
  if (command != nullptr) finished_ = command->next;
  return command;
}

void NbdConnection::wait(int wake_fd, int milliseconds) noexcept {
  const unsigned direction = ::nbd_aio_get_direction(handle_);
  const bool reads = (direction & LIBNBD_AIO_DIRECTION_READ) != 0;
  const bool writes = (direction & LIBNBD_AIO_DIRECTION_WRITE) != 0;
  pollfd polled[2] = {};
  polled[0].fd = ::nbd_aio_get_fd(handle_);
  polled[0].events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  polled[1].fd = wake_fd;
  polled[1].events = POLLIN;
  if (::poll(polled, 2, milliseconds) <= 0) return;  // interrupted: the caller comes back
  const auto said = static_cast<unsigned>(polled[0].revents);
  constexpr unsigned kEnded = POLLERR | POLLHUP | POLLNVAL;
  int result = 0;
  if (reads && (said & (POLLIN | kEnded)) != 0) {
    result = ::nbd_aio_notify_read(handle_);
  } else if (writes && (said & (POLLOUT | kEnded)) != 0) {
    result = ::nbd_aio_notify_write(handle_);
  }
  if (result == 0) return;
  last_errno_ = ::nbd_get_errno();
  last_error_ = ::nbd_get_error();
}

bool NbdConnection::alive() const noexcept {
  return ::nbd_aio_is_dead(handle_) != 1 && ::nbd_aio_is_closed(handle_) != 1;
}

}  // namespace uzram::backing
