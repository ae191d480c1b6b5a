#include "attach/nbd/connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "attach/nbd/handshake.h"
#include "attach/nbd/stream.h"
#include "attach/nbd/transmission.h"
#include "base/thread.h"

namespace uzram::attach::nbd {
namespace {

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);  // each is only for speed or tidiness
}

void tune(int fd) {
  int domain = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return;
  if (domain == AF_UNIX) {
    // Large reads go out in few wake-ups of the client. The second call passes the system's bound,
    // where we may. TCP sizes its own buffers.
    set_option(fd, SOL_SOCKET, SO_SNDBUF, 1 << 20);
    set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, 1 << 20);
    return;
  }
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer that vanished without a word is noticed within two minutes.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace

void Connections::start(base::Fd socket) {
  const base::MutexLock lock(mutex_);
  try {
    Connection& connection = list_.emplace_back();
    connection.socket = std::move(socket);
    // The thread's first step takes the mutex, so `thread` is set before anybody can look at it.
    connection.thread = std::thread([this, &connection] { serve(connection); });
  } catch (const std::exception& error) {
    if (!list_.empty() && !list_.back().thread.joinable()) list_.pop_back();
    log_client(std::string("nbd: a client was turned away: ") + error.what());
  }
}

void Connections::collect() {
  std::list<Connection> over;
  {
    const base::MutexLock lock(mutex_);
    for (auto at = list_.begin(); at != list_.end();) {
      const auto next = std::next(at);
      if (at->phase == Phase::over) over.splice(over.end(), list_, at);
      at = next;
    }
  }
  for (Connection& connection : over) connection.thread.join();
}

bool Connections::make_room() {
  const base::MutexLock lock(mutex_);
  Connection* oldest = nullptr;
  for (Connection& connection : list_) {
    if (connection.phase > Phase::transmission) return true;
    if (oldest == nullptr && connection.phase == Phase::handshake) oldest = &connection;
  }
  if (oldest == nullptr) return false;
  oldest->phase = Phase::evicted;
  ::shutdown(oldest->socket.get(), SHUT_RDWR);
  log_client("nbd: a client was dropped in its handshake: too many connections");
  return true;
}

void Connections::stop(std::chrono::milliseconds drain) {
  {
    const base::MutexLock lock(mutex_);
    held_ = false;
    released_.notify_all();
    // What is in the sockets is still received and answered; then every receive reports the end.
    for (Connection& connection : list_) ::shutdown(connection.socket.get(), SHUT_RD);
    const auto is_over = [](const Connection& c) { return c.phase == Phase::over; };
    const auto deadline = std::chrono::steady_clock::now() + drain;
    while (!std::all_of(list_.begin(), list_.end(), is_over)) {
      if (!one_over_.wait_until(mutex_, deadline)) break;
    }
    for (Connection& connection : list_) ::shutdown(connection.socket.get(), SHUT_RDWR);
    while (!std::all_of(list_.begin(), list_.end(), is_over)) one_over_.wait(mutex_);
  }
  collect();
}

bool Connections::hold() {
  const base::MutexLock lock(mutex_);
  held_ = std::none_of(list_.begin(), list_.end(),
                       [](const Connection& c) { return c.phase == Phase::transmission; });
  return held_;
}

void Connections::release() noexcept {
  const base::MutexLock lock(mutex_);
  held_ = false;
  released_.notify_all();
}

std::size_t Connections::open() const {
  const base::MutexLock lock(mutex_);
  return list_.size();
}

std::size_t Connections::in_transmission() const {
  const base::MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(list_.begin(), list_.end(),
                    [](const Connection& c) { return c.phase == Phase::transmission; }));
}

void Connections::log_client(std::string_view line) noexcept {
  limiter_.log(base::LogLevel::warning, line);
}

bool Connections::enter(Connection& connection) {
  const base::MutexLock lock(mutex_);
  while (held_) released_.wait(mutex_);
  if (connection.phase != Phase::handshake) return false;
  connection.phase = Phase::transmission;
  return true;
}

void Connections::serve(Connection& connection) noexcept {
  base::leave_signals_to_main();
  ::pthread_setname_np(::pthread_self(), "nbd-client");
  try {
    const std::string why = serve_client(connection);
    if (!why.empty()) log_client("nbd: a client was dropped: " + why);
  } catch (const std::exception& error) {
    log_client(error.what());
  }
  {
    const base::MutexLock lock(mutex_);
    connection.phase = Phase::over;
    one_over_.notify_all();
    const std::uint64_t one = 1;
    (void)!::write(ended_, &one, sizeof one);
  }
  // The peer learns it now, not when the socket is collected, and only after it counts no more: who
  // has left may ask for a reset at once. The socket is there until this thread was joined.
  ::shutdown(connection.socket.get(), SHUT_RDWR);
}

std::string Connections::serve_client(Connection& connection) {
  int fd = -1;
  {
    const base::MutexLock lock(mutex_);  // until start() is done with it
    fd = connection.socket.get();
  }
  tune(fd);
  auto stream = Stream::make(fd, limits_.stall_time, kTransmissionScratchBytes);
  if (!stream) return stream.error().message;
  stream->begin_deadline(Stream::Clock::now() + limits_.handshake_time);
  const auto session = negotiate(export_, *stream, limits_.handshake_options_max);
  if (!session) return session.error();
  stream->end_deadline();
  // In this order: a client that was told that it is in is never the one to make room.
  if (!enter(connection) || !stream->send(session->answer)) return stream->why();
  return std::make_unique<Transmission>(export_, *session, *stream, lane_)->run();
}

}  // namespace uzram::attach::nbd
