#include "tests/support/fake_store.h"

#include <algorithm>
#include <cstring>

namespace uzram::test {

using backing::kBlockBytes;

FakeStore::FakeStore(std::uint64_t block_count, std::string where)
    : where_(std::move(where)), block_count_(block_count), bytes_(block_count * kBlockBytes) {}

void FakeStore::fail_all(Kind kind, Status status) {
  const base::MutexLock lock(mutex_);
  faults_[index(kind)].all = status;
}

void FakeStore::fail_nth(Kind kind, std::uint64_t n, Status status) {
  const base::MutexLock lock(mutex_);
  Faults& faults = faults_[index(kind)];
  faults.nth = status;
  faults.nth_at = faults.ended + n;
}

void FakeStore::lose_answers() {
  const base::MutexLock lock(mutex_);
  answers_lost_ = true;
}

void FakeStore::flip_bit(std::uint64_t block, std::uint64_t bit) {
  const base::MutexLock lock(mutex_);
  bytes_.at(block * kBlockBytes + bit / 8) ^= std::byte{1} << (bit % 8);
}

void FakeStore::hold(Kind kind, std::optional<std::uint64_t> block) {
  const base::MutexLock lock(mutex_);
  faults_[index(kind)].hold = true;
  faults_[index(kind)].hold_block = block;
}

void FakeStore::release() {
  const base::MutexLock lock(mutex_);
  for (Faults& faults : faults_) faults.hold = false;
  released_.notify_all();
}

void FakeStore::shut_down() noexcept {
  const base::MutexLock lock(mutex_);
  shut_down_ = true;
  released_.notify_all();
}

void FakeStore::wait_until_held(unsigned count) const {
  const base::MutexLock lock(mutex_);
  while (held_ < count) held_changed_.wait(mutex_);
}

std::uint64_t FakeStore::count(Kind kind) const {
  const base::MutexLock lock(mutex_);
  return faults_[index(kind)].ended;
}

unsigned FakeStore::in_flight_peak() const {
  const base::MutexLock lock(mutex_);
  return in_flight_peak_;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> FakeStore::discards() const {
  const base::MutexLock lock(mutex_);
  return discards_;
}

void FakeStore::wait_until_discarded(std::uint64_t blocks) const {
  const base::MutexLock lock(mutex_);
  while (discarded_blocks_ < blocks) discarded_.wait(mutex_);
}

std::vector<std::byte> FakeStore::block(std::uint64_t index) const {
  const base::MutexLock lock(mutex_);
  const auto at = bytes_.begin() + static_cast<std::ptrdiff_t>(index * kBlockBytes);
  return {at, at + kBlockBytes};
}

bool FakeStore::is_held(const backing::Io& io) const {
  const Faults& faults = faults_[index(io.kind)];
  if (shut_down_) return false;
  if (!faults.hold || !faults.hold_block) return faults.hold;
  const std::uint64_t at = *faults.hold_block * kBlockBytes;
  return at >= io.offset && at - io.offset < io.data.size();
}

void FakeStore::finish(backing::Io& io) {
  Faults& faults = faults_[index(io.kind)];
  const bool is_nth = faults.nth != Status::ok && faults.ended == faults.nth_at;
  ++faults.ended;
  io.status = backing::check_io(io, block_count_);
  if (io.status != Status::ok) return;
  io.status = is_nth ? std::exchange(faults.nth, Status::ok) : faults.all;
  if (shut_down_) io.status = Status::io_error;
  io.uncertain = io.status != Status::ok && answers_lost_ && io.kind == Kind::write;
  if (io.status != Status::ok) return;
  std::byte* const at = bytes_.data() + io.offset;
  if (io.kind == Kind::read) {
    std::memcpy(io.data.data(), at, io.data.size());
  } else {
    std::memcpy(at, io.data.data(), io.data.size());
  }
}

void FakeStore::run(std::span<backing::Io> batch, unsigned in_flight_max) noexcept {
  const base::MutexLock lock(mutex_);
  std::vector<backing::Io*> started;
  std::size_t next = 0;
  while (next < batch.size() || !started.empty()) {
    while (next < batch.size() && started.size() < std::max(in_flight_max, 1U)) {
      started.push_back(&batch[next++]);
      in_flight_peak_ = std::max(in_flight_peak_, ++in_flight_);
    }
    auto last = started.end();
    while (last != started.begin() && is_held(**(last - 1))) --last;
    if (last == started.begin()) {
      held_ += static_cast<unsigned>(started.size());
      held_changed_.notify_all();
      released_.wait(mutex_);
      held_ -= static_cast<unsigned>(started.size());
      continue;
    }
    finish(**(last - 1));
    started.erase(last - 1);
    --in_flight_;
  }
}

bool FakeStore::discard(std::uint64_t first_block, std::uint64_t count) noexcept {
  const base::MutexLock lock(mutex_);
  if (shut_down_) return true;
  discards_.emplace_back(first_block, count);
  discarded_blocks_ += count;
  discarded_.notify_all();
  const backing::ByteRange range = backing::clip_discard(first_block, count, block_count_);
  std::memset(bytes_.data() + range.offset, static_cast<int>(kDiscardedByte), range.length);
  return !answers_lost_;
}

}  // namespace uzram::test
