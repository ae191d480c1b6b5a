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

std::string seconds(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

bool is_gone(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

}  // namespace

Result<Stream> Stream::make(int fd, milliseconds stall, std::size_t scratch_bytes) {
  auto buffers = base::MemoryMap::reserve(kInputBytes + scratch_bytes);
  if (!buffers) return tl::unexpected(buffers.error());
  const timeval send_limit = to_timeval(stall);
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit) != 0) {
    return fail_errno(errno, "SO_SNDTIMEO");
  }
  return Stream(fd, stall, std::move(*buffers));
}

void Stream::end_deadline() {
  deadline_.reset();
  const timeval tick = to_timeval(std::min(stall_, kTick));
  // If it fails, waits in the middle of a message are unbounded but end with the connection.
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
}

bool Stream::receive() {
  const bool idle = begin_ == end_;
  if (idle) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    std::memmove(input(), input() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t got = receive_some(input() + end_, kInputBytes - end_, idle);
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
  for (std::size_t done = here; done < to.size();) {
    const std::size_t got = receive_some(to.data() + done, to.size() - done, false);
    if (got == 0) return false;
    done += got;
  }
  return true;
}

bool Stream::skip(std::uint64_t bytes) {
  const std::size_t here = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end_ - begin_));
  consume(here);
  for (bytes -= here; bytes > 0;) {
    begin_ = end_ = 0;
    const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kInputBytes));
    const std::size_t got = receive_some(input(), room, false);
    if (got == 0) return false;
    bytes -= got;
  }
  return true;
}

std::size_t Stream::receive_some(std::byte* to, std::size_t room, bool idle) {
  const auto start = deadline_ || idle ? Clock::time_point{} : Clock::now();
  for (;;) {
    if (deadline_ && !wait_for_deadline()) return 0;
    const ssize_t got = ::recv(fd_, to, room, deadline_ ? MSG_DONTWAIT : 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      if (!is_gone(errno)) why_ = "receive: " + std::generic_category().message(errno);
      return 0;
    }
    if (deadline_) continue;
    if (idle) {
      buffers_.release(0, buffers_.size());
      pollfd ready{fd_, POLLIN, 0};
      (void)::poll(&ready, 1, -1);
    } else if (Clock::now() - start >= stall_) {
      why_ = "nothing came for " + seconds(stall_) + " in the middle of a message";
      return 0;
    }
  }
}

bool Stream::wait_for_deadline() {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
    pollfd ready{fd_, POLLIN, 0};
    const int count =
        left.count() > 0
            ? ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)))
            : 0;
    if (count > 0) return true;
    if (count < 0 && errno == EINTR) continue;
    why_ = "the handshake was not finished in time";
    return false;
  }
}

bool Stream::send(std::span<iovec> parts) {
  while (!parts.empty()) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        why_ = "replies were not read for " + seconds(stall_);
      } else if (!is_gone(errno)) {
        why_ = "send: " + std::generic_category().message(errno);
      }
      return false;
    }
    auto left = static_cast<std::size_t>(sent);
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (left > 0) {
      parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + left;
      parts.front().iov_len -= left;
    }
  }
  return true;
}

bool Stream::send(std::span<const std::byte> bytes) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send(std::span(&part, 1));
}

}  // namespace uzram::attach::nbd
