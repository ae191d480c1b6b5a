#include "bench/team.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

namespace uzram::bench {
namespace {

double seconds_of(const timeval& time) noexcept {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

struct Member {
  Tally tally;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

}  // namespace

std::uint64_t now_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

Usage Usage::now() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  timespec cpu{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime),
          static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9,
          static_cast<std::uint64_t>(usage.ru_nvcsw), static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

Usage& Usage::operator+=(const Usage& other) noexcept {
  usr_s += other.usr_s;
  sys_s += other.sys_s;
  cpu_s += other.cpu_s;
  ctx_voluntary += other.ctx_voluntary;
  ctx_involuntary += other.ctx_involuntary;
  return *this;
}

Usage Usage::operator-(const Usage& other) const noexcept {
  return {usr_s - other.usr_s, sys_s - other.sys_s, cpu_s - other.cpu_s,
          ctx_voluntary - other.ctx_voluntary, ctx_involuntary - other.ctx_involuntary};
}

double Measured::cpu_us_per_request() const noexcept {
  return requests == 0 ? 0 : usage.cpu_s * 1e6 / static_cast<double>(requests);
}

Measured& Measured::operator+=(const Measured& other) noexcept {
  requests += other.requests;
  bytes += other.bytes;
  seconds += other.seconds;
  usage += other.usage;
  latency.merge(other.latency);
  return *this;
}

Result<Measured> run_team(unsigned threads, const Work& work) {
  std::vector<Member> members(threads);
  std::vector<std::thread> running;
  running.reserve(threads);
  std::latch ready(threads);
  std::latch go(1);
  std::atomic<bool> called_off = false;
  const auto body = [&](unsigned thread) {
    Member& member = members[thread];
    ready.count_down();
    go.wait();
    if (called_off) return;
    member.start_ns = now_ns();
    work(thread, member.tally);
    member.end_ns = now_ns();
  };
  std::optional<Error> error;
  try {
    for (unsigned thread = 0; thread < threads; ++thread) running.emplace_back(body, thread);
    ready.wait();
  } catch (const std::system_error& refused) {
    error = Error{Status::no_memory, "thread " + std::to_string(running.size() + 1) + " of " +
                                         std::to_string(threads) + ": " + refused.what()};
    called_off = true;
  }
  const Usage before = Usage::now();
  go.count_down();
  for (std::thread& thread : running) thread.join();
  Measured sum;
  sum.usage = Usage::now() - before;
  if (error) return tl::unexpected(*error);

  std::uint64_t start_ns = members.front().start_ns;
  std::uint64_t end_ns = 0;
  for (const Member& member : members) {
    if (member.tally.error) return tl::unexpected(*member.tally.error);
    sum.requests += member.tally.requests;
    sum.bytes += member.tally.bytes;
    sum.latency.merge(member.tally.latency);
    start_ns = std::min(start_ns, member.start_ns);
    end_ns = std::max(end_ns, member.end_ns);
  }
  sum.seconds = static_cast<double>(std::max<std::uint64_t>(end_ns - start_ns, 1)) * 1e-9;
  return sum;
}

}  // namespace uzram::bench
