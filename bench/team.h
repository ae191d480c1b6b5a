// Threads that start together and are measured together.
//
// What: runs one function on several threads, all let go at once, and tells what they did, how long
//   it took and what the process spent on it.
// Units: nanoseconds for clocks, seconds for CPU time.
// Ownership: the caller owns what the function touches; it is set up before the threads start, so
//   that setting up isn't measured.
// Threading: `run_team` blocks its caller; each thread has its own Tally.
// Errors: the first error of a thread, or no_memory where threads can't be had.
#ifndef UZRAM_BENCH_TEAM_H_
#define UZRAM_BENCH_TEAM_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "base/histogram.h"
#include "uzram/result.h"

namespace uzram::bench {

std::uint64_t now_ns() noexcept;

// What the whole process used: helpers of the device included.
struct Usage {
  double usr_s = 0;  // as the system splits it: in clock ticks on most kernels
  double sys_s = 0;
  double cpu_s = 0;  // both together, exact
  std::uint64_t ctx_voluntary = 0;
  std::uint64_t ctx_involuntary = 0;

  static Usage now() noexcept;
  Usage& operator+=(const Usage& other) noexcept;
  Usage operator-(const Usage& other) const noexcept;
};

struct Tally {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  base::Histogram latency;  // nanoseconds
  std::optional<Error> error;
};

struct Measured {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;  // from the first thread's start to the last one's end
  Usage usage;
  base::Histogram latency;

  double iops() const noexcept { return static_cast<double>(requests) / seconds; }
  // Of the whole process. Hardly changes when others keep the machine busy, as iops() does.
  double cpu_us_per_request() const noexcept;
  // As if one followed the other.
  Measured& operator+=(const Measured& other) noexcept;
};

using Work = std::function<void(unsigned thread, Tally& tally)>;
Result<Measured> run_team(unsigned threads, const Work& work);

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_TEAM_H_
