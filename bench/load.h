// One thread's load: the loop that is measured.
//
// What: builds batches of requests in the order of the profile, submits them, and counts. The same
//   loop drives the device and the floor, so what it costs is in both.
// Units: bytes, nanoseconds. Ownership: a Worker owns its buffers; the plan and the source pages
//   outlive it. Threading: a Worker belongs to one thread once its team has started.
// Errors: the first request that fails ends the loop, with one line in the tally.
#ifndef UZRAM_BENCH_LOAD_H_
#define UZRAM_BENCH_LOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/order.h"
#include "bench/source_pages.h"
#include "bench/team.h"
#include "uzram/request.h"

namespace uzram::bench {

// What all threads of a round have in common.
struct Plan {
  const Options& options;
  const ProfileTraits& traits;
  const SourcePages& pages;
  std::uint64_t duration_ns = 0;  // 0: each record once
  std::uint64_t seed = 0;         // of the round
};

inline Error request_error(const ProfileTraits& traits, const Request& request) {
  return {request.status,
          std::string(traits.name) + (request.op == Op::write ? ": write" : ": read") + " of " +
              std::to_string(request.length) + " bytes at " + std::to_string(request.offset) +
              ": " + std::string(describe(request.status))};
}

// Two readings of the clock cost as much as a twentieth of a small read, so few small submissions
// are timed. The interval is odd: a device that does something on each fourth or eighth request
// must not be met always or never.
inline unsigned timing_interval(std::uint64_t batch, std::uint64_t record_bytes) noexcept {
  constexpr std::uint64_t kPagesPerReading = 16;
  const std::uint64_t pages = batch * ((record_bytes + kPageBytes - 1) / kPageBytes);
  return pages >= kPagesPerReading ? 1 : static_cast<unsigned>(kPagesPerReading / pages) | 1;
}

class Worker {
 public:
  Worker(const Plan& plan, unsigned thread)
      : plan_(plan),
        thread_(thread),
        requests_(plan.options.batch),
        buffers_(plan.options.batch * plan.options.record_bytes),
        interval_(timing_interval(plan.options.batch, plan.options.record_bytes)) {}

  // `submit` takes a span of requests and completes them.
  template <typename Submit>
  void run(Tally& tally, Submit&& submit) {
    const std::uint64_t deadline = plan_.duration_ns > 0 ? now_ns() + plan_.duration_ns : 0;
    for (std::uint64_t pass = 0;; ++pass) {
      const std::uint64_t seed = mix(plan_.seed, pass);
      // Another beginning each time: no record gets the data again that it holds.
      position_ = mix(seed, thread_) % SourcePages::kPages * kPageBytes;
      const Order order(plan_.options.records(), thread_, plan_.options.threads,
                        plan_.traits.random, mix(seed, thread_ + kThreadsMax));
      if (!run_pass(order, seed, deadline, tally, submit) || deadline == 0) return;
    }
  }

 private:
  // False when the time is over or a request failed.
  template <typename Submit>
  bool run_pass(const Order& order, std::uint64_t seed, std::uint64_t deadline, Tally& tally,
                Submit& submit) {
    for (std::uint64_t done = 0; done < order.count();) {
      const std::uint64_t n = std::min<std::uint64_t>(requests_.size(), order.count() - done);
      for (std::uint64_t i = 0; i < n; ++i) prepare(requests_[i], i, order(done + i), seed);
      const std::span<Request> batch(requests_.data(), n);
      bool in_time = true;
      if (++untimed_ < interval_) {
        submit(batch);
      } else {
        untimed_ = 0;
        const std::uint64_t before = now_ns();
        submit(batch);
        const std::uint64_t after = now_ns();
        tally.latency.record(after - before, n);
        in_time = deadline == 0 || after < deadline;
      }
      for (const Request& request : batch) {
        if (request.status == Status::ok) continue;
        tally.error = request_error(plan_.traits, request);
        return false;
      }
      done += n;
      tally.requests += n;
      tally.bytes += n * plan_.options.record_bytes;
      if (!in_time) return false;
    }
    return true;
  }

  void prepare(Request& request, std::uint64_t slot, std::uint64_t record,
               std::uint64_t seed) noexcept {
    const std::uint64_t length = plan_.options.record_bytes;
    const unsigned percent = plan_.traits.read_percent;
    const bool read = percent == 100 || (percent > 0 && mix(seed ^ record) % 100 < percent);
    request.op = read ? Op::read : Op::write;
    request.offset = record * length;
    request.length = length;
    if (read) {
      request.data = buffers_.data() + slot * length;
    } else {
      // A write never changes its data.
      request.data = const_cast<std::byte*>(plan_.pages.at(position_));
      position_ = SourcePages::next(position_, length);
    }
  }

  const Plan& plan_;
  const unsigned thread_;
  std::vector<Request> requests_;
  std::vector<std::byte> buffers_;  // a record for each request of a batch
  std::uint64_t position_ = 0;      // in the ring of source pages
  const unsigned interval_;
  unsigned untimed_ = 0;
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_LOAD_H_
