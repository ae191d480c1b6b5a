#include "attach/nbd/stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace uzram::attach::nbd {
namespace {

using std::chrono::milliseconds;

// How long a receive waits before it looks at the clock. Only a peer that just sent something, or
// that is in the middle of a message, costs such a look: then an idle one is waited for without
// end.
constexpr milliseconds kTick{1000};

timeval to_timeval(milliseconds time) {
  timeval value{};
  value.tv_sec = static_cast<time_t>(time.count() / 1000);
  value.tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000);
  return value;
}

// What is left of `parts` when the first bytes are sent.
std::span<iovec> without(std::span<iovec> parts, std::size_t sent) {
  while (!parts.empty() && sent >= parts.front().iov_len) {
    sent -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (sent > 0) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + sent;
    parts.front().iov_len -= sent;
  }
  return parts;
}

bool is_gone(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

}  // namespace

Result<Stream> Stream::make(int fd, milliseconds stall, std::size_t scratch_bytes) {
  auto buffers = base::MemoryMap::reserve(kInputBytes + scratch_bytes);
  if (!buffers) return tl::unexpected(buffers.error());
  return Stream(fd, stall, std::move(*buffers));
}

void Stream::end_deadline() {
  deadline_.reset();
  const timeval tick = to_timeval(std::min(stall_, kTick));
  // If it fails, waits in the middle of a message are unbounded but end with the connection.
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
}

bool Stream::receive(int wake_fd) {
  if (begin_ != end_ && !pending_end_) pending_end_ = deadline_for(0);
  if (wake_fd >= 0 && is_woken(wake_fd)) return true;
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else {
    if (begin_ > 0) std::memmove(input(), input() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t got = receive_some(input() + end_, kInputBytes - end_, pending_end_);
  end_ += got;
  return got > 0;
}

bool Stream::receive_until(std::size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (!receive()) return false;
  }
  return true;
}

bool Stream::take(std::span<std::byte> to) {
  const std::size_t here = std::min(to.size(), end_ - begin_);
  std::memcpy(to.data(), input() + begin_, here);
  consume(here);
  const auto message_end = deadline_for(to.size());
  for (std::size_t done = here; done < to.size();) {
    const std::size_t got = receive_some(to.data() + done, to.size() - done, message_end);
    if (got == 0) return false;
    done += got;
  }
  return true;
}

bool Stream::skip(std::uint64_t bytes) {
  const std::size_t here = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end_ - begin_));
  consume(here);
  const auto message_end = deadline_for(bytes);
  for (bytes -= here; bytes > 0;) {
    begin_ = end_ = 0;
    const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kInputBytes));
    const std::size_t got = receive_some(input(), room, message_end);
    if (got == 0) return false;
    bytes -= got;
  }
  return true;
}

Stream::Clock::time_point Stream::deadline_for(std::size_t bytes) const {
  return Clock::now() + stall_ + std::chrono::seconds(bytes / kRateMin);
}

std::size_t Stream::receive_some(std::byte* to, std::size_t room,
                                 std::optional<Clock::time_point> message_end) {
  if (message_end) message_end = std::min(*message_end, Clock::now() + stall_);
  for (;;) {
    if (deadline_) {
      if (!wait_until(*deadline_, POLLIN)) {
        why_ = "the handshake was not finished in time";
        return 0;
      }
    } else if (message_end && Clock::now() >= *message_end) {
      why_ = "a message was not whole in time";
      return 0;
    }
    const ssize_t got = ::recv(fd_, to, room, deadline_ ? MSG_DONTWAIT : 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      if (!is_gone(errno)) why_ = "receive: " + std::generic_category().message(errno);
      return 0;
    }
    if (deadline_) continue;
    if (!message_end) {
      buffers_.release(0, buffers_.size());
      pollfd ready{fd_, POLLIN, 0};
      (void)::poll(&ready, 1, -1);
    }
  }
}

bool Stream::wait_until(Clock::time_point end, short events) const {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{fd_, events, 0};
    const int count =
        ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool Stream::is_woken(int wake_fd) const {
  int left = -1;
  if (pending_end_) {
    const auto time = std::chrono::ceil<milliseconds>(*pending_end_ - Clock::now()).count();
    left = static_cast<int>(std::clamp<std::int64_t>(time, 0, 1 << 30));
  }
  for (;;) {
    pollfd ready[2] = {{fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    const int count = ::poll(ready, 2, left);
    if (count > 0) return ready[1].revents != 0;
    if (count == 0) return false;  // too late: to receive tells
    // Whoever is woken for nothing comes again; who is not woken would wait for ever.
    if (errno != EINTR) return true;
  }
}

bool Stream::send(std::span<iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  std::optional<Clock::time_point> message_end;  // known once the peer is waited for
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        if (!message_end) message_end = deadline_for(bytes);
        if (wait_until(std::min(*message_end, Clock::now() + stall_), POLLOUT)) continue;
        why_ = "replies were not read in time";
      } else if (!is_gone(errno)) {
        why_ = "send: " + std::generic_category().message(errno);
      }
      return false;
    }
    parts = without(parts, static_cast<std::size_t>(sent));
  }
  return true;
}

bool Stream::send(std::span<const std::byte> bytes) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send(std::span(&part, 1));
}

}  // namespace uzram::attach::nbd
