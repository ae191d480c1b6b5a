#include "attach/nbd/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace uzram::attach::nbd {
namespace {

// A Unix client that connects without blocking fails when this is used up: as much as there is.
constexpr int kBacklog = SOMAXCONN;

tl::unexpected<Error> refuse(Status status, const NbdAddress& address, const std::string& why) {
  return fail(status, to_string(address) + ": " + why);
}

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());  // fits: parse_nbd_address saw to it
  return address;
}

// Keeps two starts from taking the same path: held from the look at what is there until the new
// socket listens. The file goes with its holder; one that a crash left behind does no harm.
class PathLock {
 public:
  static Result<PathLock> take(const NbdAddress& address) {
    PathLock lock(address.path + ".uzram-lock");
    constexpr int kTries = 100;  // each lost one means that another start came and went
    for (int i = 0; i < kTries; ++i) {
      lock.file_.reset(::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!lock.file_) {
        const int error = errno;
        const auto slash = address.path.rfind('/');
        return fail_errno(error, to_string(address) + ": directory '" +
                                     address.path.substr(0, slash == 0 ? 1 : slash) + "'");
      }
      if (::flock(lock.file_.get(), LOCK_EX | LOCK_NB) != 0) {
        lock.file_.reset();
        return refuse(Status::busy, address, "another start on this path is under way");
      }
      struct stat ours {
      }, there{};
      if (::fstat(lock.file_.get(), &ours) == 0 && ::lstat(lock.path_.c_str(), &there) == 0 &&
          ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
        return lock;
      }
      lock.file_.reset();  // its holder took it away between our open and our lock
    }
    return refuse(Status::busy, address, "another start on this path is under way");
  }

  PathLock(PathLock&&) = default;
  PathLock& operator=(PathLock&&) = delete;
  ~PathLock() {
    if (file_) ::unlink(path_.c_str());
  }

 private:
  explicit PathLock(std::string path) : path_(std::move(path)) {}
  std::string path_;
  base::Fd file_;
};

// Takes away a socket file at which nobody listens; refuses everything else that is at the path.
Result<void> clear_path(const NbdAddress& address) {
  struct stat there {};
  if (::lstat(address.path.c_str(), &there) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno(errno, to_string(address));
  }
  if (!S_ISSOCK(there.st_mode)) {
    return refuse(Status::exists, address, "exists and is not a socket");
  }
  const base::Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return fail_errno(errno, to_string(address));
  const sockaddr_un name = socket_address(address.path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ||
      errno == EAGAIN || errno == EPROTOTYPE) {  // connected, backlog full, or another socket type
    return refuse(Status::busy, address, "in use by a running server");
  }
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED) return fail_errno(errno, to_string(address));
  if (::unlink(address.path.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, to_string(address) + ": the stale socket can't be removed");
  }
  return {};
}

}  // namespace

Result<Listener> Listener::open(const NbdAddress& address) {
  Listener listener(address);
  const auto opened =
      address.kind == NbdAddress::Kind::tcp ? listener.open_tcp() : listener.open_unix();
  if (!opened) return tl::unexpected(opened.error());
  return listener;
}

Result<void> Listener::open_unix() {
  const auto lock = PathLock::take(address_);
  if (!lock) return tl::unexpected(lock.error());
  if (auto cleared = clear_path(address_); !cleared) return cleared;
  base::Fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return fail_errno(errno, to_string(address_));
  // Linux gives the file the mode of the socket's own inode: 0600 from its first moment on.
  if (::fchmod(made.get(), 0600) != 0) return fail_errno(errno, to_string(address_));
  const sockaddr_un name = socket_address(address_.path);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return fail_errno(errno, to_string(address_));
  }
  struct stat file {};
  if (::listen(made.get(), kBacklog) != 0 || ::lstat(address_.path.c_str(), &file) != 0) {
    const int error = errno;
    ::unlink(address_.path.c_str());
    return fail_errno(error, to_string(address_));
  }
  file_device_ = file.st_dev;
  file_inode_ = file.st_ino;
  socket_ = std::move(made);
  return {};
}

Result<void> Listener::open_tcp() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(address_.host.c_str(), std::to_string(address_.port).c_str(), &hints, &found);
  if (failed != 0) return refuse(Status::not_found, address_, ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, &::freeaddrinfo);

  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    base::Fd made(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    // SO_REUSEADDR lets a restart pass connections in TIME_WAIT, never a live listener.
    if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(made.get(), at->ai_addr, at->ai_addrlen) != 0 ||
        ::listen(made.get(), kBacklog) != 0 ||
        ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      error = errno;
      continue;
    }
    // The port lies at the same place in both families.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    in_port_t port = 0;
    std::memcpy(&port, reinterpret_cast<const char*>(&bound) + offsetof(sockaddr_in, sin_port),
                sizeof port);
    address_.port = ntohs(port);
    socket_ = std::move(made);
    return {};
  }
  return fail_errno(error, to_string(address_));
}

void Listener::close() noexcept {
  if (!socket_) return;
  if (address_.kind == NbdAddress::Kind::unix_socket) {
    // Before the socket closes: while it listens, nobody may take the path for stale.
    struct stat there {};
    if (::lstat(address_.path.c_str(), &there) == 0 && there.st_dev == file_device_ &&
        there.st_ino == file_inode_) {
      ::unlink(address_.path.c_str());
    }
  }
  socket_.reset();
}

}  // namespace uzram::attach::nbd
