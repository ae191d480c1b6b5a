#include "attach/loop/session_loop.h"

#include <linux/fuse.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

namespace uzram::attach {
namespace {

struct Range {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t length() const { return end > begin ? end - begin : 0; }
};

template <typename In>
bool body_of(const fuse_buf& request, In& in) {
  if (request.size < sizeof(fuse_in_header) + sizeof in) return false;
  std::memcpy(&in, static_cast<const char*>(request.mem) + sizeof(fuse_in_header), sizeof in);
  return true;
}

std::uint32_t opcode_of(const fuse_buf& request) {
  fuse_in_header header{};
  if (request.size >= sizeof header) std::memcpy(&header, request.mem, sizeof header);
  return header.opcode;
}

// What the request changes; empty where it changes nothing, or isn't one (libfuse refuses that).
Range changed_by(const fuse_buf& request) {
  const std::uint32_t opcode = opcode_of(request);
  fuse_write_in write;
  fuse_fallocate_in allocate;
  if (opcode == FUSE_WRITE && body_of(request, write)) {
    return {write.offset, write.offset + write.size};
  }
  if (opcode == FUSE_FALLOCATE && body_of(request, allocate)) {
    return {allocate.offset, allocate.offset + allocate.length};
  }
  return {};
}

// A page's work at most.
bool is_short(const fuse_buf& request, const Range& changed) {
  fuse_read_in read;
  switch (opcode_of(request)) {
    case FUSE_READ:
      return body_of(request, read) && read.size <= kPageBytes;
    case FUSE_LSEEK:
      return false;
    default:
      return changed.length() <= kPageBytes;
  }
}

// A buffer that libfuse allocates when it first receives, and reuses.
struct Buffer {
  fuse_buf request{};
  Buffer() = default;
  ~Buffer() { std::free(request.mem); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

}  // namespace

SessionLoop::SessionLoop(fuse_session* session, Device& device)
    : session_(session), device_(device), lane_(device, {.jobs_max = ChangeOrder::kSlowMax}) {}

void SessionLoop::run(unsigned threads) {
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads) others.emplace_back([this] { serve(); });
  } catch (const std::exception&) {
    // One thread serves as well, only slower.
  }
  serve();
  for (std::thread& other : others) other.join();
}

void SessionLoop::serve() {
  Buffer buffer;
  Turn turn(device_, lane_, order_);
  while (receive(buffer.request, turn)) {
    if (!turn.is_refused()) fuse_session_process_buf(session_, &buffer.request);
    turn.end();
  }
}

bool SessionLoop::receive(fuse_buf& request, Turn& turn) {
  const base::MutexLock lock(receive_mutex_);
  while (fuse_session_exited(session_) == 0) {
    const int got = fuse_session_receive_buf(session_, &request);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    const Range range = changed_by(request);
    const unsigned ticket = order_.enter(range.begin, range.end);
    turn.begin(ticket);
    if (!is_short(request, range) || order_.must_wait(ticket) || has_more()) return true;
    // The only one there is: to wake another thread to wait for the next would cost more than it.
    fuse_session_process_buf(session_, &request);
    if (turn.is_refused()) return true;  // it has to wait, and nobody may wait for that
    turn.end();
  }
  fuse_session_exit(session_);
  return false;
}

bool SessionLoop::has_more() const {
  pollfd session{fuse_session_fd(session_), POLLIN, 0};
  return ::poll(&session, 1, 0) != 0;
}

}  // namespace uzram::attach
