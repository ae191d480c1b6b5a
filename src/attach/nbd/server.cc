#include "attach/nbd/server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "attach/nbd/connections.h"
#include "attach/nbd/export.h"
#include "attach/nbd/listener.h"
#include "base/fd.h"
#include "base/thread.h"
#include "exec/slow_lane.h"

namespace uzram::attach {
namespace {

using nbd::ConnectionLimits;
using nbd::Connections;
using nbd::Export;
using nbd::Listener;

// Every connection may have as many as it may; their memory together is bounded.
constexpr exec::LaneLimits kLaneLimits{.jobs_max = 1024,
                                       .buffer_bytes_max = std::uint64_t{256} << 20U};

class NbdServer final : public Attachment {
 public:
  NbdServer(Device& device, const NbdOptions& options, Listener listener, base::Fd wake)
      : export_{device, options.export_name, options.description,
                options.read_only || device.options().read_only, options.block_bytes},
        where_(nbd_uri(listener.address(), options.export_name)),
        connections_max_(options.connections_max),
        drain_time_(options.drain_time),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        lane_(device, kLaneLimits),
        connections_(export_, lane_,
                     ConnectionLimits{options.handshake_options_max, options.handshake_time,
                                      options.stall_time},
                     wake_.get()) {
    reserve_descriptor();
  }
  ~NbdServer() override { (void)stop(true); }

  void start() {
    acceptor_ = std::thread([this] { accept_loop(); });
  }

  std::string kind() const override { return "nbd"; }
  std::string where() const override { return where_; }
  unsigned clients() const override {
    return static_cast<unsigned>(connections_.in_transmission());
  }
  Result<void> stop(bool force) override;
  Result<void> hold() override;
  void release() noexcept override { connections_.release(); }

 private:
  void accept_loop();
  void accept_one();
  void turn_one_away();
  void reserve_descriptor() { reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  const Export export_;
  const std::string where_;
  const unsigned connections_max_;
  const std::chrono::milliseconds drain_time_;
  Listener listener_;
  base::Fd wake_;  // eventfd: a connection ended, or stop() wants the acceptor to leave
  std::atomic<bool> stopping_{false};
  exec::SlowLane lane_;
  Connections connections_;
  std::thread acceptor_;
  // The acceptor's own:
  base::Fd reserve_;     // given up for a moment to turn a client away when descriptors run out
  bool paused_ = false;  // no room: accept nothing until a connection ended or a second passed
};

Result<void> NbdServer::stop(bool force) {
  if (acceptor_.joinable()) {
    stopping_ = true;
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    acceptor_.join();
  }
  listener_.close();
  connections_.stop(force ? std::chrono::milliseconds(0) : drain_time_);
  return {};
}

Result<void> NbdServer::hold() {
  if (connections_.hold()) return {};
  const unsigned count = clients();
  return fail(Status::busy, where_ + ": in use, " + std::to_string(count) +
                                (count == 1 ? " client is" : " clients are") + " connected");
}

void NbdServer::accept_loop() {
  base::leave_signals_to_main();
  ::pthread_setname_np(::pthread_self(), "nbd-accept");
  while (!stopping_) {
    pollfd waits[2] = {{wake_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    const int ready = ::poll(waits, paused_ ? 1 : 2, paused_ ? 1000 : -1);
    if (ready < 0) continue;  // EINTR
    paused_ = false;
    if (waits[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      connections_.collect();
    }
    if (waits[1].revents != 0 && !stopping_) accept_one();
  }
}

void NbdServer::accept_one() {
  const bool full = connections_.open() >= connections_max_;
  // Silent clients must not keep others out: when there is no room, the one that has been longest
  // in its handshake makes some, and the newcomer waits for that in the backlog.
  if (full && connections_.make_room()) {
    paused_ = true;
    return;
  }
  base::Fd client(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) turn_one_away();
    return;  // otherwise the client has gone, or was taken by nobody: poll tells
  }
  if (full) {
    connections_.log_client("nbd: a client was turned away: " + std::to_string(connections_max_) +
                            " connections are open");
    return;
  }
  connections_.start(std::move(client));
}

// Without a descriptor to spare a client would stay in the backlog, and poll would spin over it.
void NbdServer::turn_one_away() {
  connections_.log_client("nbd: a client was turned away: no descriptor or no memory left for it");
  if (reserve_) {
    reserve_.reset();
    const base::Fd client(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    paused_ = !client;
  } else {
    paused_ = true;
  }
  reserve_descriptor();
}

Result<void> check(const NbdOptions& options) {
  constexpr std::size_t kMax = nbd::kStringMax;
  if (options.export_name.empty() || options.export_name.size() > kMax) {
    return fail(Status::invalid_argument,
                "NBD export name '" + options.export_name + "': has 1 to 4096 bytes");
  }
  if (options.description.size() > kMax) {
    return fail(Status::invalid_argument, "NBD description: has at most 4096 bytes");
  }
  if (options.block_bytes != 512 && options.block_bytes != 4096) {
    return fail(Status::invalid_argument,
                "NBD block size " + std::to_string(options.block_bytes) + ": is 512 or 4096");
  }
  if (options.connections_max == 0 || options.handshake_options_max == 0 ||
      options.handshake_time.count() <= 0 || options.stall_time.count() <= 0 ||
      options.drain_time.count() < 0) {
    return fail(Status::invalid_argument, "NBD limits: none may be 0");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Attachment>> start_nbd(Device& device, const NbdOptions& options) {
  if (auto valid = check(options); !valid) return tl::unexpected(valid.error());
  auto listener = Listener::open(options.address);
  if (!listener) return tl::unexpected(listener.error());
  base::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail_errno(errno, "eventfd");
  auto server = std::make_unique<NbdServer>(device, options, std::move(*listener), std::move(wake));
  try {
    server->start();
  } catch (const std::system_error& error) {
    return fail(Status::no_memory, std::string("NBD thread: ") + error.what());
  }
  return std::unique_ptr<Attachment>(std::move(server));
}

}  // namespace uzram::attach
