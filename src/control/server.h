// The control socket of a device.
//
// What: one thread that serves lines on a Unix socket. At most kClientsMax clients; a newcomer
// takes
//   the place of the one that has been silent for longest, and who leaves a line unfinished, a
//   reply unread or the connection unused for kClientTimeout is dropped. Without clients it never
//   wakes.
// Units: bytes, milliseconds. Ownership: owns socket, clients and thread; the handler's captures
//   outlive it.
// Threading: `start`, `stop` and the destructor by one thread; the handler runs on the server's.
// Errors: `start` fails with one line; a peer's misdeeds cost its own connection.
#ifndef UZRAM_CONTROL_SERVER_H_
#define UZRAM_CONTROL_SERVER_H_

#include <poll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "uzram/result.h"

namespace uzram::control {

class Server {
 public:
  static constexpr std::size_t kClientsMax = 16;
  static constexpr std::chrono::seconds kClientTimeout{30};

  // The reply to a line, without its newline; empty where none is due.
  using Handler = std::function<std::string(std::string_view line)>;

  // Replaces a stale socket at `path`; the caller knows that it is stale (it holds the lock).
  static Result<std::unique_ptr<Server>> start(const std::string& path, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Ends the thread; false when the handler has not returned within `patience`. Clients stay
  // connected until the destructor: that a connection ends tells a client that the process has.
  bool stop(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    base::Fd socket;
    Clock::time_point deadline;  // moves with each complete request
    std::string in;              // received, not yet a line
    std::string out;             // not yet sent; no further line is served before it is
  };

  Server(base::Fd listener, base::Fd wake, Handler handler);
  void run();
  std::vector<pollfd> poll_set() const;
  int poll_timeout() const;
  void accept_client();
  // False when the client is to be dropped.
  bool serve(Client& client, short events);
  bool receive(Client& client);
  bool serve_lines(Client& client);
  static bool send_pending(Client& client);

  const base::Fd listener_;
  const base::Fd wake_;  // an eventfd; readable once the server is to stop
  const Handler handler_;
  // The server's thread alone, until that has ended.
  std::vector<Client> clients_;
  base::Fd spare_;  // given up for a moment to turn clients away when descriptors run out
  base::Mutex mutex_;
  base::CondVar ended_;
  bool has_ended_ UZRAM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_SERVER_H_
