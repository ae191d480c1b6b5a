#include "control/server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "control/json_rpc.h"
#include "control/unix_socket.h"

namespace uzram::control {
namespace {

Result<void> remove_stale_socket(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) return fail(Status::exists, path + ": exists and is not a socket");
  if (::unlink(path.c_str()) != 0) return fail_errno(errno, path);
  return {};
}

Result<base::Fd> listen_at(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return tl::unexpected(address.error());
  if (auto removed = remove_stale_socket(path); !removed) return tl::unexpected(removed.error());
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, path);
  // Nobody can connect before listen, so the mode is right from the first connection on.
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return fail_errno(errno, path);
  }
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return fail_errno(error, path);
  }
  return socket;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const std::string& path, Handler handler) {
  auto listener = listen_at(path);
  if (!listener) return tl::unexpected(listener.error());
  base::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::Fd done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake || !done) {
    const int error = errno;
    ::unlink(path.c_str());
    return fail_errno(error, "control socket");
  }
  std::unique_ptr<Server> server(
      new Server(std::move(*listener), std::move(wake), std::move(done), std::move(handler)));
  try {
    server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    ::unlink(path.c_str());
    return fail_errno(error.code().value(), "control thread");
  }
  return server;
}

Server::Server(base::Fd listener, base::Fd wake, base::Fd done, Handler handler)
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
      done_(std::move(done)),
      handler_(std::move(handler)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

Server::~Server() {
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

bool Server::stop(std::chrono::milliseconds patience) {
  ::eventfd_write(wake_.get(), 1);
  const auto deadline = Clock::now() + patience;
  const base::MutexLock lock(mutex_);
  while (!has_ended_) {
    if (!ended_.wait_until(mutex_, deadline)) break;
  }
  return has_ended_;
}

void Server::run() {
  while (poll_once()) {
  }
  finish_calls();
  const base::MutexLock lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

// The answer to the call that stops the process is among those that are under way.
void Server::finish_calls() {
  for (Client& client : clients_) {
    if (!client.call) continue;
    if (end_call(client)) static_cast<void>(send_pending(client));
  }
}

// False when the server is to stop, or can't go on.
bool Server::poll_once() {
  std::vector<pollfd> polled = poll_set();
  const int ready = ::poll(polled.data(), polled.size(), poll_timeout());
  if (ready < 0) return errno == EINTR;
  if (polled[0].revents != 0) return false;
  eventfd_t count = 0;
  // Read before the calls are looked at: one that is done later makes it readable again.
  if (polled[1].revents != 0) ::eventfd_read(done_.get(), &count);
  const auto now = Clock::now();
  for (std::size_t i = clients_.size(); i-- > 0;) {
    Client& client = clients_[i];
    const short events = polled[i + 3].revents;
    const bool answered = client.call && client.call->done.load(std::memory_order_acquire);
    if (client.call && !answered) continue;
    const bool keep = (!answered && events == 0) || serve(client, events);
    if (!keep || (!client.call && now >= client.deadline)) {
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (polled[2].revents != 0) accept_client();
  return true;
}

std::vector<pollfd> Server::poll_set() const {
  const bool all_wait = clients_.size() == kClientsMax &&
                        std::all_of(clients_.begin(), clients_.end(),
                                    [](const Client& client) { return client.call != nullptr; });
  std::vector<pollfd> set = {{wake_.get(), POLLIN, 0},
                             {done_.get(), POLLIN, 0},
                             {all_wait ? -1 : listener_.get(), POLLIN, 0}};
  for (const Client& client : clients_) {
    set.push_back({client.call ? -1 : client.socket.get(),
                   client.out.empty() ? short{POLLIN} : short{POLLOUT}, 0});
  }
  return set;
}

int Server::poll_timeout() const {
  auto first = Clock::time_point::max();
  for (const Client& client : clients_) {
    if (!client.call) first = std::min(first, client.deadline);
  }
  if (first == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void Server::accept_client() {
  const bool full = clients_.size() == kClientsMax;
  const auto silent = full ? longest_silent() : clients_.end();
  if (full && silent == clients_.end()) return;  // the last of them has just asked something
  base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    // Left waiting, the newcomer would keep the listener readable and this thread spinning.
    spare_.reset();
    socket.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    socket.reset();
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return;
  }
  if (full) clients_.erase(silent);
  clients_.push_back({std::move(socket), Clock::now() + kClientTimeout});
}

std::vector<Server::Client>::iterator Server::longest_silent() {
  auto found = clients_.end();
  for (auto at = clients_.begin(); at != clients_.end(); ++at) {
    if (at->call) continue;
    if (found == clients_.end() || at->deadline < found->deadline) found = at;
  }
  return found;
}

bool Server::serve(Client& client, short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  try {
    if (client.call) {
      if (!end_call(client) || !send_pending(client)) return false;
    } else if (!(client.out.empty() ? receive(client) : send_pending(client))) {
      return false;
    }
    return serve_next(client);
  } catch (const std::bad_alloc&) {
    return false;  // a client less; the device lives
  }
}

bool Server::receive(Client& client) {
  std::array<char, 16 << 10> buffer;
  const ssize_t got = ::recv(client.socket.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  client.in.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

bool Server::serve_next(Client& client) {
  if (!client.out.empty()) return true;
  if (client.last) return false;
  const std::size_t end = client.in.find('\n');
  const bool whole = end != std::string::npos;
  // The handler refuses what is too long; where the next line begins is then unknown.
  if (!whole && client.in.size() <= kLineBytesMax) return true;
  client.last = !whole;
  std::string line = client.in.substr(0, end);
  client.in.erase(0, whole ? end + 1 : end);
  return begin_call(client, std::move(line));
}

bool Server::begin_call(Client& client, std::string line) {
  client.call = std::make_unique<Call>();
  Call& call = *client.call;
  call.line = std::move(line);
  try {
    call.thread = std::thread([this, &call] {
      try {
        call.reply = handler_(call.line);
        if (!call.reply.empty()) call.reply += '\n';
      } catch (const std::bad_alloc&) {
        call.failed = true;
      }
      call.done.store(true, std::memory_order_release);
      ::eventfd_write(done_.get(), 1);
    });
    return true;
  } catch (const std::system_error&) {  // no more threads to be had
    client.call.reset();
    return false;
  }
}

bool Server::end_call(Client& client) {
  client.call->thread.join();
  const bool failed = client.call->failed;
  client.out = std::move(client.call->reply);
  client.call.reset();
  client.deadline = Clock::now() + kClientTimeout;
  return !failed;
}

bool Server::send_pending(Client& client) {
  while (!client.out.empty()) {
    const ssize_t sent =
        ::send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    client.out.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace uzram::control
