// Running a profile.
//
// What: fills the device where the profile wants it filled, then measures rounds. With the floor
//   asked for, floor and device take turns over three rounds and the medians count, so that what
//   the machine does meanwhile meets both.
// Units: bytes, nanoseconds, percent of one core.
// Ownership: results are values. Threading: one run at a time in a process; CPU time, context
//   switches and resident memory are the whole process's.
// Errors: one line: a request that failed, a mismatch, memory that isn't there.
#ifndef UZRAM_BENCH_RUN_H_
#define UZRAM_BENCH_RUN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/options.h"
#include "bench/source_pages.h"
#include "bench/team.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::bench {

struct Round {
  double iops = 0;
  std::optional<double> floor_iops;
};

struct RunResult {
  Profile profile = Profile::seq_write;
  Options options;  // as run: the level filled in
  std::vector<Round> rounds;
  double iops = 0;  // median of the rounds
  std::optional<double> floor_iops;
  std::optional<double> floor_cpu_us_per_request;
  Measured measured;            // all rounds of the device together
  Stats stats;                  // when the last round was over
  std::uint64_t rss_bytes = 0;  // of the process, without the floor's array

  double bytes_per_s() const noexcept;
  double usr_percent() const noexcept;
  double sys_percent() const noexcept;
  std::optional<double> floor_ratio() const noexcept;
};

// Runs on `device`, which loses its data and must have been made with the options' own.
Result<RunResult> run_profile(const Options& options, Profile profile, const SourcePages& pages,
                              Device& device);

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_RUN_H_
