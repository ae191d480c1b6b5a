#include "backing/ring.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

namespace uzram::backing {

std::unique_ptr<Ring> Ring::create(unsigned depth) noexcept {
  std::unique_ptr<Ring> ring(new (std::nothrow) Ring(depth));
  if (ring == nullptr) return nullptr;
  if (::io_uring_queue_init(depth, &ring->ring_, 0) != 0) {
    ring->ring_.ring_fd = -1;
    return nullptr;
  }
  // Came with plain reads and writes; before, there were only vectored ones.
  if ((ring->ring_.features & IORING_FEAT_RW_CUR_POS) == 0) return nullptr;
  for (unsigned i = 0; i < depth; ++i) ring->free_[i] = static_cast<std::uint16_t>(i);
  ring->free_count_ = depth;
  return ring;
}

Ring::~Ring() {
  if (ring_.ring_fd >= 0) ::io_uring_queue_exit(&ring_);
}

bool Ring::run(int fd, std::span<Io> batch, unsigned in_flight_max) noexcept {
  std::size_t next = 0;
  for (;;) {
    for (; next < batch.size() && depth_ - free_count_ < in_flight_max; ++next) {
      if (batch[next].status != kPending) continue;
      const std::uint16_t slot = free_[--free_count_];
      transfers_[slot] = {&batch[next], 0};
      prepare(fd, slot);
    }
    if (free_count_ == depth_) return true;
    const int result = ::io_uring_submit_and_wait(&ring_, 1);
    if (result < 0 && result != -EINTR) {
      drain();
      return false;
    }
    reap(fd);
  }
}

void Ring::prepare(int fd, std::uint16_t slot) noexcept {
  const auto& [io, done] = transfers_[slot];
  io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);  // as many entries as slots: never null
  std::byte* const at = io->data.data() + done;
  const auto length = static_cast<unsigned>(std::min(io->data.size() - done, kTransferBytesMax));
  if (io->kind == Io::Kind::read) {
    ::io_uring_prep_read(entry, fd, at, length, io->offset + done);
  } else {
    ::io_uring_prep_write(entry, fd, at, length, io->offset + done);
  }
  ::io_uring_sqe_set_data64(entry, slot);
}

bool Ring::complete(Transfer& transfer, int result) noexcept {
  if (result == -EINTR || result == -EAGAIN) return false;
  Io& io = *transfer.io;
  if (result <= 0) {  // 0: the file ends before this
    io.status = result == 0 ? Status::io_error : status_of_transfer(-result);
    return true;
  }
  transfer.done += static_cast<std::size_t>(result);
  if (transfer.done < io.data.size()) return false;
  io.status = Status::ok;
  return true;
}

void Ring::reap(int fd) noexcept {
  io_uring_cqe* answer = nullptr;
  while (::io_uring_peek_cqe(&ring_, &answer) == 0) {
    const auto slot = static_cast<std::uint16_t>(answer->user_data);
    const int result = answer->res;
    ::io_uring_cqe_seen(&ring_, answer);
    if (complete(transfers_[slot], result)) {
      free_[free_count_++] = slot;
    } else {
      prepare(fd, slot);
    }
  }
}

void Ring::drain() noexcept {
  // The caller's bytes can't be left while the system may still move some: this waits, whatever the
  // wait says.
  unsigned in_flight = depth_ - free_count_ - ::io_uring_sq_ready(&ring_);
  while (in_flight > 0) {
    io_uring_cqe* answer = nullptr;
    if (::io_uring_wait_cqe(&ring_, &answer) != 0) continue;
    (void)complete(transfers_[answer->user_data], answer->res);
    ::io_uring_cqe_seen(&ring_, answer);
    --in_flight;
  }
}

std::unique_ptr<Ring> RingSet::take(unsigned depth) noexcept {
  {
    const base::MutexLock lock(mutex_);
    for (std::unique_ptr<Ring>& ring : at_rest_) {
      if (ring != nullptr && ring->depth() >= depth) return std::move(ring);
    }
  }
  return create_(std::bit_ceil(depth));
}

void RingSet::give_back(std::unique_ptr<Ring> ring) noexcept {
  const auto depth = [](const std::unique_ptr<Ring>& at) { return at ? at->depth() : 0; };
  const base::MutexLock lock(mutex_);
  auto& seat = *std::min_element(at_rest_.begin(), at_rest_.end(),
                                 [&](auto& one, auto& other) { return depth(one) < depth(other); });
  // The shallowest goes, after the lock: `ring` takes it along.
  if (depth(seat) < depth(ring)) std::swap(seat, ring);
}

}  // namespace uzram::backing
