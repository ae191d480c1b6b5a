// One client's connection as a stream of bytes.
//
// What: receives as much as there is into one buffer, from which messages are taken in place; sends
//   gathered; gives up on a peer that stops in the middle of a message or doesn't read.
// Units: bytes. Ownership: borrows the socket, owns its buffers. Memory: address space for the
//   buffers below is reserved once, memory is taken by touch and given back when the peer is idle.
// Threading: one thread; another may call shutdown(2) on the socket to end any wait here.
// Errors: a call that returns false ends the connection; `why` then tells people the reason.
#ifndef UZRAM_ATTACH_NBD_STREAM_H_
#define UZRAM_ATTACH_NBD_STREAM_H_

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/memory_map.h"
#include "uzram/result.h"

namespace uzram::attach::nbd {

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kInputBytes = std::size_t{256} << 10;
  static constexpr std::size_t kRateMin = std::size_t{256} << 10;

  // `stall` bounds each wait for a peer in the middle of a message, either way, and the message as
  // a whole but for one second more for every kRateMin bytes: a peer that moves a byte now and then
  // gets no further than one that stopped. `scratch_bytes` are the caller's, after the input
  // buffer.
  static Result<Stream> make(int fd, std::chrono::milliseconds stall, std::size_t scratch_bytes);

  // From here to end_deadline, receiving fails at `deadline`.
  void begin_deadline(Clock::time_point deadline) { deadline_ = deadline; }
  void end_deadline();

  // What was received and not yet consumed. Stays in place until the next receive.
  std::span<const std::byte> pending() const { return {input() + begin_, end_ - begin_}; }
  std::byte* pending_data() { return input() + begin_; }
  void consume(std::size_t bytes) {
    begin_ += bytes;
    pending_end_.reset();
  }

  // Waits until at least one more byte is pending; waits for ever when none is and no deadline set.
  // With a `wake_fd`, also returns true when that is readable.
  bool receive(int wake_fd = -1);
  // Waits until `bytes` are pending; at most kInputBytes.
  bool receive_until(std::size_t bytes);
  // Moves the next bytes of the stream to `to`: what is pending, the rest straight from the socket.
  bool take(std::span<std::byte> to);
  // Drops the next bytes of the stream.
  bool skip(std::uint64_t bytes);

  // Sends everything; changes `parts`.
  bool send(std::span<iovec> parts);
  bool send(std::span<const std::byte> bytes);

  std::byte* scratch() const { return buffers_.data() + kInputBytes; }
  // Empty when the peer went away or nothing went wrong.
  const std::string& why() const { return why_; }

 private:
  Stream(int fd, std::chrono::milliseconds stall, base::MemoryMap buffers)
      : fd_(fd), stall_(stall), buffers_(std::move(buffers)) {}
  std::byte* input() const { return buffers_.data(); }
  // When a message of so many bytes, of which some are there or sent, must be whole.
  Clock::time_point deadline_for(std::size_t bytes) const;
  // One recv, 0 when the stream is over. Waits for a peer at rest, whose `message_end` is nothing,
  // without end.
  std::size_t receive_some(std::byte* to, std::size_t room,
                           std::optional<Clock::time_point> message_end);
  bool wait_until(Clock::time_point end, short events) const;
  // Waits for the peer, or for `wake_fd`: then true.
  bool is_woken(int wake_fd) const;

  int fd_;
  std::chrono::milliseconds stall_;
  base::MemoryMap buffers_;
  std::size_t begin_ = 0, end_ = 0;  // pending bytes, within the input buffer
  std::optional<Clock::time_point> deadline_;
  // Of the message that the pending bytes begin, once they have been waited for.
  std::optional<Clock::time_point> pending_end_;
  std::string why_;
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_STREAM_H_
