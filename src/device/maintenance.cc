#include "device/maintenance.h"

#include <pthread.h>

#include <chrono>

#include "device/age.h"

namespace uzram::device {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTick{20};
constexpr std::chrono::milliseconds kWorkPerTick{3};
constexpr int kRestTicks = 10;

}  // namespace

void Maintenance::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "uzram-maint");
}

void Maintenance::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Maintenance::wake() noexcept {
  touched_.store(true, std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_seq_cst)) return;
  // Taken so that the thread is either before its look at touched_ or in the wait.
  { const base::MutexLock lock(mutex_); }
  changed_.notify_all();
}

bool Maintenance::pause(std::chrono::milliseconds time) noexcept {
  const auto deadline = Clock::now() + time;
  const base::MutexLock lock(mutex_);
  while (!stopping_) {
    if (!changed_.wait_until(mutex_, deadline)) return !stopping_;
  }
  return false;
}

bool Maintenance::sleep_until_touched() noexcept {
  const base::MutexLock lock(mutex_);
  asleep_.store(true, std::memory_order_seq_cst);
  while (!stopping_ && !touched_.load(std::memory_order_seq_cst)) {
    if (!changed_.wait_until(mutex_, next_sweep_)) break;
  }
  asleep_.store(false, std::memory_order_seq_cst);
  return !stopping_;
}

void Maintenance::sweep_if_due() noexcept {
  const auto now = Clock::now();
  if (now < next_sweep_) return;
  device_.sweep_ages();
  next_sweep_ = now + std::chrono::seconds(Age::kSweepSeconds);
}

void Maintenance::run() noexcept {
  next_sweep_ = Clock::now() + std::chrono::seconds(Age::kSweepSeconds);
  while (sleep_until_touched()) {
    for (int quiet = 0; quiet < kRestTicks;) {
      sweep_if_due();
      quiet = touched_.exchange(false, std::memory_order_acq_rel) ? 0 : quiet + 1;
      tick();
      if (!pause(kTick)) return;
    }
    if (!settle()) return;
  }
}

void Maintenance::tick() noexcept {
  const auto end = Clock::now() + kWorkPerTick;
  Pressure pressure = device_.pressure();
  if (pressure != Pressure::none) device_.refresh();
  while (pressure != Pressure::none && Clock::now() < end && device_.compact_some(false)) {
    pressure = device_.pressure();
  }
  set_urgent(pressure == Pressure::urgent);
}

bool Maintenance::settle() noexcept {
  set_urgent(false);
  device_.rest();
  while (!touched_.load(std::memory_order_relaxed)) {
    const auto end = Clock::now() + kWorkPerTick;
    bool gained = true;
    while (gained && Clock::now() < end) gained = device_.compact_some(true);
    if (!gained) break;
    if (!pause(kTick)) return false;
  }
  if (!touched_.load(std::memory_order_relaxed)) device_.rest();
  return true;
}

}  // namespace uzram::device
