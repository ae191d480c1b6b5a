#include "device/context.h"

namespace uzram::device {
namespace {

// The seat that this thread had last, whatever the device: a place to look first.
thread_local std::size_t last_seat = 0;

}  // namespace

std::size_t ContextSet::try_any_seat() noexcept {
  if (try_seat(last_seat)) return last_seat;
  std::size_t index = 0;
  while (index < kSeats && !try_seat(index)) ++index;
  return index;
}

ContextSet::Lease ContextSet::lease() noexcept {
  std::size_t index = try_any_seat();
  while (index == kSeats) {
    const std::uint32_t returns = returns_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    // Looked at once more after the sleeper is announced, or a return in between would be missed.
    index = try_any_seat();
    if (index == kSeats) returns_.wait(returns, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (index == kSeats) index = try_any_seat();
  }
  Seat& seat = seats_[index];
  if (!seat.context) {
    seat.context = maker_();
    if (!seat.context) {
      put_back(index);
      return {nullptr, 0};
    }
    seat.published.store(seat.context.get(), std::memory_order_release);
  }
  last_seat = index;
  return {this, index};
}

void ContextSet::take_seat(std::size_t index) noexcept {
  for (;;) {
    const std::uint32_t returns = returns_.load(std::memory_order_seq_cst);
    if (try_seat(index)) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const bool got = try_seat(index);
    if (!got) returns_.wait(returns, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (got) return;
  }
}

void ContextSet::put_back(std::size_t index) noexcept {
  seats_[index].taken.store(false, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    returns_.fetch_add(1, std::memory_order_seq_cst);
    returns_.notify_all();
  }
}

std::uint64_t ContextSet::sum(Counter Counters::*counter) const noexcept {
  std::uint64_t total = 0;
  for (const Seat& seat : seats_) {
    const Context* context = seat.published.load(std::memory_order_acquire);
    if (context != nullptr) total += (context->counters.*counter).get();
  }
  return total;
}

}  // namespace uzram::device
