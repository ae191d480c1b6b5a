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
  if (!wake) {
    const int error = errno;
    ::unlink(path.c_str());
    return fail_errno(error, "control socket");
  }
  std::unique_ptr<Server> server(
      new Server(std::move(*listener), std::move(wake), std::move(handler)));
  try {
    server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    ::unlink(path.c_str());
    return fail_errno(error.code().value(), "control thread");
  }
  return server;
}

Server::Server(base::Fd listener, base::Fd wake, Handler handler)
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
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
  for (;;) {
    std::vector<pollfd> polled = poll_set();
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout());
    if (ready < 0 && errno != EINTR) break;
    if (ready >= 0) {
      if (polled[0].revents != 0) break;
      const auto now = Clock::now();
      for (std::size_t i = clients_.size(); i-- > 0;) {
        const short events = polled[i + 2].revents;
        const bool keep = events == 0 || serve(clients_[i], events);
        if (!keep || now >= clients_[i].deadline)
          clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (polled[1].revents != 0) accept_client();
    }
  }
  const base::MutexLock lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

std::vector<pollfd> Server::poll_set() const {
  std::vector<pollfd> set = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Client& client : clients_) {
    set.push_back({client.socket.get(), client.out.empty() ? short{POLLIN} : short{POLLOUT}, 0});
  }
  return set;
}

int Server::poll_timeout() const {
  if (clients_.empty()) return -1;
  const auto first =
      std::min_element(clients_.begin(), clients_.end(),
                       [](const Client& a, const Client& b) { return a.deadline < b.deadline; });
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(first->deadline - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void Server::accept_client() {
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
  if (clients_.size() == kClientsMax) {
    clients_.erase(
        std::min_element(clients_.begin(), clients_.end(),
                         [](const Client& a, const Client& b) { return a.deadline < b.deadline; }));
  }
  clients_.push_back({std::move(socket), Clock::now() + kClientTimeout, {}, {}});
}

bool Server::serve(Client& client, short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  try {
    return (client.out.empty() ? receive(client) : send_pending(client)) && serve_lines(client);
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

bool Server::serve_lines(Client& client) {
  std::size_t begin = 0;
  bool keep = true;
  while (keep && client.out.empty()) {
    const std::size_t end = client.in.find('\n', begin);
    const bool whole = end != std::string::npos;
    // The handler refuses what is too long; where the next line begins is then unknown.
    if (!whole && client.in.size() - begin <= kLineBytesMax) break;
    client.out = handler_(std::string_view(client.in).substr(begin, end - begin));
    if (!client.out.empty()) client.out += '\n';
    client.deadline = Clock::now() + kClientTimeout;
    keep = send_pending(client) && whole;
    begin = whole ? end + 1 : client.in.size();
  }
  client.in.erase(0, begin);
  return keep;
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
