// One connection to an NBD export, by libnbd.
//
// What: connects, tells what the export can, moves commands. Nothing here waits but `connect` and
//   `wait`.
// Units: bytes. Ownership: owns the socket; a command and its bytes are the caller's until it is
//   finished or the connection is destroyed. Threading: one thread at a time.
// Errors: a command that fails carries an errno. When the connection ends, `alive` turns false;
// what
//   was in flight then is not all finished, and never will be once the connection is destroyed.
#ifndef UZRAM_BACKING_NBD_CONNECTION_H_
#define UZRAM_BACKING_NBD_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "uzram/result.h"

struct nbd_handle;

namespace uzram::backing {

class NbdConnection {
 public:
  enum class Op : std::uint8_t { read, write, trim };
  struct Command {
    Op op = Op::read;
    std::uint64_t offset = 0;
    std::byte* data = nullptr;  // not for trim
    std::size_t length = 0;     // at most `length_max(op)`
    int error = 0;              // out: an errno

    NbdConnection* connection = nullptr;  // the rest is the connection's
    Command* next = nullptr;
    bool finished = false;
  };

  // Fails where the export is none that a store can use, or once `cancel_fd` (-1: none) is
  // readable; every message begins with the URI.
  static Result<std::unique_ptr<NbdConnection>> connect(const std::string& uri,
                                                        std::chrono::milliseconds time_max,
                                                        int cancel_fd);
  ~NbdConnection();
  NbdConnection(const NbdConnection&) = delete;
  NbdConnection& operator=(const NbdConnection&) = delete;

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  bool can_trim() const noexcept { return can_trim_; }
  // A multiple of kBlockBytes.
  std::size_t length_max(Op op) const noexcept;

  // Sends it, at once or by and by; it is among the finished ones later, whatever happens.
  void issue(Command& command) noexcept;
  // One that is finished, or null.
  Command* take_finished() noexcept;
  // Waits until the server has something to say or takes more, or `wake_fd` is readable, or
  // `milliseconds` have passed (-1: for as long as it takes); then reads and writes what it can.
  void wait(int wake_fd, int milliseconds) noexcept;
  bool alive() const noexcept;

 private:
  explicit NbdConnection(nbd_handle* handle) noexcept : handle_(handle) {}
  static int on_completion(void* command, int* error) noexcept;
  void finish(Command& command, int error) noexcept;
  Result<void> handshake(const std::string& uri, std::chrono::milliseconds time_max, int cancel_fd);
  Result<void> check_export(const std::string& uri);
  void keep_alive() const noexcept;

  nbd_handle* const handle_;
  std::uint64_t size_bytes_ = 0;
  std::size_t payload_max_ = 0;
  bool can_trim_ = false;
  std::string last_error_;  // what libnbd said when the connection failed
  int last_errno_ = 0;
  Command* finished_ = nullptr;
};

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_NBD_CONNECTION_H_
