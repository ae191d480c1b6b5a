#include "tests/support/fake_device.h"

#include <algorithm>
#include <cstring>

namespace uzram::test {

FakeDevice::FakeDevice(std::uint64_t size_bytes, bool read_only)
    : bytes_(size_bytes), stored_((size_bytes + kPageBytes - 1) / kPageBytes) {
  options_.type = DeviceType::ram;
  options_.size_bytes = size_bytes;
  options_.read_only = read_only;
}

void FakeDevice::fail_next(Op op, Status status) {
  const base::MutexLock lock(mutex_);
  fault_ = {op, status};
}

void FakeDevice::block(std::uint64_t begin, std::uint64_t end) {
  const base::MutexLock lock(mutex_);
  blocked_begin_ = begin;
  blocked_end_ = end;
}

void FakeDevice::unblock() {
  const base::MutexLock lock(mutex_);
  blocked_begin_ = blocked_end_ = 0;
  unblocked_.notify_all();
}

void FakeDevice::wait_until_waiting(unsigned count) const {
  const base::MutexLock lock(mutex_);
  while (waiting_ < count) counts_changed_.wait(mutex_);
}

void FakeDevice::wait_until_refused(unsigned count) const {
  const base::MutexLock lock(mutex_);
  while (refused_ < count) counts_changed_.wait(mutex_);
}

unsigned FakeDevice::waiting() const {
  const base::MutexLock lock(mutex_);
  return waiting_;
}

bool FakeDevice::is_blocked(const Request& request) const {
  return request.op != Op::flush && request.offset < blocked_end_ &&
         request.offset + request.length > blocked_begin_;
}

void FakeDevice::submit(std::span<Request> batch) noexcept {
  const base::MutexLock lock(mutex_);
  for (Request& request : batch) {
    if (is_blocked(request) && (request.flags & kNoWait) != 0) {
      request.status = Status::would_block;
      ++refused_;
      counts_changed_.notify_all();
      continue;
    }
    if (is_blocked(request)) {
      ++waiting_;
      counts_changed_.notify_all();
      while (is_blocked(request)) unblocked_.wait(mutex_);
      --waiting_;
    }
    request.status = run(request);
  }
}

Status FakeDevice::run(const Request& request) {
  if (fault_ && fault_->first == request.op) {
    const Status status = fault_->second;
    fault_.reset();
    return status;
  }
  if (request.op == Op::flush) {
    ++stats_.flushes;
    return Status::ok;
  }
  if (request.offset > bytes_.size() || request.length > bytes_.size() - request.offset) {
    return Status::out_of_range;
  }
  if (request.op != Op::read && options_.read_only) return Status::read_only;
  if (request.length == 0) return Status::ok;
  std::byte* at = bytes_.data() + request.offset;
  const std::uint64_t end = request.offset + request.length;
  switch (request.op) {
    case Op::read:
      std::memcpy(request.data, at, request.length);
      ++stats_.reads;
      stats_.read_bytes += request.length;
      break;
    case Op::write:
      std::memcpy(at, request.data, request.length);
      ++stats_.writes;
      stats_.write_bytes += request.length;
      for (std::uint64_t p = request.offset / kPageBytes; p * kPageBytes < end; ++p)
        stored_[p] = true;
      break;
    case Op::discard:
    case Op::write_zeroes:
      std::memset(at, 0, request.length);
      ++stats_.discards;
      stats_.discard_bytes += request.length;
      for (std::uint64_t p = (request.offset + kPageBytes - 1) / kPageBytes;
           (p + 1) * kPageBytes <= end; ++p) {
        stored_[p] = (request.flags & kNoHole) != 0;
      }
      break;
    case Op::flush:
      break;
  }
  return Status::ok;
}

std::size_t FakeDevice::extents(std::uint64_t offset, std::uint64_t length,
                                std::span<Extent> out) const noexcept {
  const base::MutexLock lock(mutex_);
  if (length == 0 || out.empty() || offset > bytes_.size() || length > bytes_.size() - offset) {
    return 0;
  }
  std::size_t count = 0;
  const std::uint64_t end = offset + length;
  while (offset < end) {
    const std::uint64_t page = offset / kPageBytes;
    const std::uint64_t next = std::min(end, (page + 1) * kPageBytes);
    const Extent extent{next - offset, !stored_[page], !stored_[page]};
    if (count > 0 && out[count - 1].hole == extent.hole && out[count - 1].zero == extent.zero) {
      out[count - 1].length += extent.length;
    } else {
      if (count == out.size()) break;
      out[count++] = extent;
    }
    offset = next;
  }
  return count;
}

void FakeDevice::reset() noexcept {
  const base::MutexLock lock(mutex_);
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
  std::fill(stored_.begin(), stored_.end(), false);
  stats_ = {};
}

Stats FakeDevice::stats() const noexcept {
  const base::MutexLock lock(mutex_);
  return stats_;
}

void FakeDevice::set_mem_limit(std::uint64_t bytes) noexcept {
  const base::MutexLock lock(mutex_);
  options_.mem_limit_bytes = bytes;
}

Result<std::uint64_t> FakeDevice::write_back(const WriteBackOptions& options) {
  const base::MutexLock lock(mutex_);
  write_back_ = options;
  return 0;
}

WriteBackOptions FakeDevice::last_write_back() const {
  const base::MutexLock lock(mutex_);
  return write_back_;
}

}  // namespace uzram::test
