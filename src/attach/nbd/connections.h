// The open connections of a server, one thread each.
//
// What: starts, counts, ends and collects them. Units: connections. Ownership: owns sockets and
//   threads; a socket is closed only after its thread was joined, so shutdown(2) on it is safe.
// Threading: `start`, `collect` and `make_room` belong to the accepting thread, `stop` to whoever
// joined
//   that one before; the counters may be read by any thread. Errors: a connection's own end it
//   alone.
#ifndef UZRAM_ATTACH_NBD_CONNECTIONS_H_
#define UZRAM_ATTACH_NBD_CONNECTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <thread>

#include "attach/nbd/export.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/slow_lane.h"

namespace uzram::attach::nbd {

struct ConnectionLimits {
  unsigned handshake_options_max;
  std::chrono::milliseconds handshake_time;
  std::chrono::milliseconds stall_time;
};

class Connections {
 public:
  // `ended` is an eventfd that gets a 1 for each connection that is ready to be collected.
  // The lane is for all of them, and outlives them.
  Connections(const Export& served, exec::SlowLane& lane, ConnectionLimits limits, int ended)
      : export_(served), lane_(lane), limits_(limits), ended_(ended) {}
  ~Connections() { stop(std::chrono::milliseconds(0)); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Serves `socket` on a thread of its own; closes it when the system has no thread to give.
  void start(base::Fd socket);
  // Joins and forgets the connections that ended.
  void collect();
  // Ends the oldest connection that is still in its handshake, unless one is about to be collected
  // anyway; false when all are past it.
  bool make_room();
  // Lets every client have the answers to what was received, for `drain` at most; then ends all.
  void stop(std::chrono::milliseconds drain);

  // While held, a client that has finished its handshake waits. False when one is past it.
  bool hold();
  void release() noexcept;

  std::size_t open() const;
  std::size_t in_transmission() const;
  // A line about a client, held back when there are too many.
  void log_client(std::string_view line) noexcept;

 private:
  enum class Phase : std::uint8_t { handshake, transmission, evicted, over };  // in this order
  struct Connection {
    base::Fd socket;
    std::thread thread;
    Phase phase = Phase::handshake;
  };

  void serve(Connection& connection) noexcept;
  // Returns why the connection had to be ended, empty for a good reason.
  std::string serve_client(Connection& connection);
  // From the handshake to the transmission phase; false when it had to make room.
  bool enter(Connection& connection);

  const Export& export_;
  exec::SlowLane& lane_;
  const ConnectionLimits limits_;
  const int ended_;
  base::LogLimiter limiter_{5};
  mutable base::Mutex mutex_;
  base::CondVar one_over_;
  base::CondVar released_;
  bool held_ UZRAM_GUARDED_BY(mutex_) = false;
  // In the order of their arrival. `phase` of each is guarded too; socket and thread belong to the
  // collecting thread.
  std::list<Connection> list_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_CONNECTIONS_H_
