// The thread that keeps a device's memory dense.
//
// What: sleeps while nothing is written. After a write or discard it looks at the pool every 20 ms,
// spends
//   at most 15 % of that time on compaction, and once the device has been at rest for 200 ms
//   settles it: magazines flushed, sparse memory given back, then sleep until it is touched again,
//   or ages must be swept, some times a day.
// Units: milliseconds. Ownership: refers to the device, which stops it first.
// Threading: `touch` from any thread, start and stop by the owner. Errors: none.
#ifndef UZRAM_DEVICE_MAINTENANCE_H_
#define UZRAM_DEVICE_MAINTENANCE_H_

#include <atomic>
#include <chrono>
#include <thread>

#include "base/mutex.h"

namespace uzram::device {

enum class Pressure : std::uint8_t {
  none,    // dense enough while requests run
  sparse,  // compaction pays
  urgent,  // the thread can't keep up: writers help
};

class Maintained {
 public:
  virtual Pressure pressure() const noexcept = 0;
  // Before a round of steps: makes what stood in the way of earlier ones worth another try.
  virtual void refresh() noexcept = 0;
  // One bounded step, about a millisecond; false when nothing was gained. `resting` aims higher.
  virtual bool compact_some(bool resting) noexcept = 0;
  // The device came to rest.
  virtual void rest() noexcept = 0;
  // At least every Age::kSweepSeconds.
  virtual void sweep_ages() noexcept = 0;

 protected:
  ~Maintained() = default;
};

class Maintenance {
 public:
  explicit Maintenance(Maintained& device) : device_(device) {}
  ~Maintenance() { stop(); }

  void start();
  void stop() noexcept;

  // Tells that memory was taken or freed.
  void touch() noexcept {
    if (!touched_.load(std::memory_order_relaxed)) wake();
  }
  bool urgent() const noexcept { return urgent_.load(std::memory_order_relaxed); }
  void set_urgent(bool urgent) noexcept { urgent_.store(urgent, std::memory_order_relaxed); }

 private:
  void wake() noexcept;
  void run() noexcept;
  void tick() noexcept;
  bool settle() noexcept;
  // Sleeps; false when asked to stop.
  bool pause(std::chrono::milliseconds time) noexcept;
  bool sleep_until_touched() noexcept;

  void sweep_if_due() noexcept;

  Maintained& device_;
  std::chrono::steady_clock::time_point next_sweep_;  // the thread's own
  std::atomic<bool> touched_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> urgent_{false};
  std::thread thread_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ UZRAM_GUARDED_BY(mutex_) = false;
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_MAINTENANCE_H_
