// The control socket of a device.
//
// What: serves lines on a Unix socket. One thread reads and writes for all; each line is answered
// on
//   a thread of its own, so that a slow answer holds up nobody but who asked. At most kClientsMax
//   clients; a newcomer takes the place of the one that has been silent for longest, and who leaves
//   a line unfinished, a reply unread or the connection unused for kClientTimeout is dropped. Who
//   waits for an answer is not silent: while all do, newcomers wait. Without clients it never
//   wakes.
// Units: bytes, milliseconds. Ownership: owns socket, clients and thread; the handler's captures
//   outlive it.
// Threading: `start`, `stop` and the destructor by one thread; the handler is called by up to
//   kClientsMax threads at once, for each client by one at a time.
// Errors: `start` fails with one line; a peer's misdeeds cost its own connection.
#ifndef UZRAM_CONTROL_SERVER_H_
#define UZRAM_CONTROL_SERVER_H_

#include <poll.h>

#include <atomic>
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

  // Serves no further line, sends the answers that are under way, and ends the threads; false when
  // a handler has not returned within `patience`. Clients stay connected until the destructor: that
  // a connection ends tells a client that the process has. The destructor waits for all handlers.
  bool stop(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  // A line that is being answered.
  struct Call {
    std::string line = {};
    std::string reply = {};  // with its newline; the call's thread, until `done`
    bool failed = false;     // no memory for a reply
    std::atomic<bool> done = false;
    std::thread thread;
  };
  struct Client {
    base::Fd socket;
    Clock::time_point deadline = {};  // moves with each complete request
    std::string in = {};              // received, not yet a line
    std::string out = {};             // not yet sent; no further line is served before it is
    std::unique_ptr<Call> call = {};  // nor while there is one
    bool last = false;                // dropped once `out` is sent
  };

  Server(base::Fd listener, base::Fd wake, base::Fd done, Handler handler);
  void run();
  void finish_calls();
  bool poll_once();
  std::vector<pollfd> poll_set() const;
  int poll_timeout() const;
  void accept_client();
  // The client that is to make room: the longest silent one, or none.
  std::vector<Client>::iterator longest_silent();
  // False when the client is to be dropped.
  bool serve(Client& client, short events);
  bool receive(Client& client);
  bool serve_next(Client& client);
  bool begin_call(Client& client, std::string line);
  // Waits for the call and takes its reply; false when there is none for lack of memory.
  static bool end_call(Client& client);
  static bool send_pending(Client& client);

  const base::Fd listener_;
  const base::Fd wake_;  // an eventfd; readable once the server is to stop
  const base::Fd done_;  // an eventfd; readable once a call is done
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
