#include "bench/run.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <string>

#include "base/units.h"
#include "bench/floor.h"
#include "bench/load.h"
#include "bench/verify.h"
#include "codec/codec.h"

namespace uzram::bench {
namespace {

constexpr unsigned kFloorRounds = 3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// None where the system doesn't say.
std::optional<std::uint64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
    file.ignore(256, '\n');
  }
  return std::nullopt;
}

// Refuses what the machine would answer by swapping or by killing someone.
Result<void> check_memory(const Options& options, const PackedSizes& sizes) {
  const double pages = static_cast<double>(options.device.size_bytes) / kPageBytes;
  double needed = pages * sizes.average * 1.05;
  if (options.floor) needed += static_cast<double>(Floor::bytes_for(options.device, sizes));
  const std::optional<std::uint64_t> available = available_memory();
  if (!available || needed <= static_cast<double>(*available)) return {};
  return fail(Status::no_memory,
              "size " + base::format_size(options.device.size_bytes) + ": these pages need " +
                  base::format_size(static_cast<std::uint64_t>(needed)) + " of memory, " +
                  base::format_size(*available) + " are available");
}

// Writes every page once, in order, whatever the record is.
template <typename Submit>
Result<void> fill(const Options& options, const SourcePages& pages, Submit&& submit) {
  constexpr std::uint64_t kFillBytes = 64 * kPageBytes;
  const std::uint64_t size = options.device.size_bytes;
  std::uint64_t position = 0;
  for (std::uint64_t offset = 0; offset < size; offset += kFillBytes) {
    Request request{.op = Op::write,
                    .offset = offset,
                    .length = std::min(kFillBytes, size - offset),
                    .data = const_cast<std::byte*>(pages.at(position))};
    submit(std::span<Request>(&request, 1));
    if (request.status != Status::ok) {
      return fail(request.status, "fill: write at " + std::to_string(offset) + ": " +
                                      std::string(describe(request.status)));
    }
    position = SourcePages::next(position, kFillBytes);
  }
  return {};
}

// What one profile's rounds work on.
class Runner {
 public:
  Runner(const Options& options, Profile profile, const SourcePages& pages, Device& device)
      : options_(options),
        traits_(traits_of(profile)),
        pages_(pages),
        device_(device),
        with_floor_(options.floor && !traits_.verify) {}

  Result<void> prepare(const PackedSizes& sizes);
  Result<RunResult> run(Profile profile);

 private:
  Result<Measured> run_device(const Plan& plan);
  Result<Measured> run_floor(const Plan& plan);

  const Options& options_;
  const ProfileTraits& traits_;
  const SourcePages& pages_;
  Device& device_;
  const bool with_floor_;
  Floor floor_;
};

Result<void> Runner::prepare(const PackedSizes& sizes) {
  device_.reset();
  const auto to_device = [this](std::span<Request> batch) { device_.submit(batch); };
  if (!traits_.empty) {
    if (Result<void> filled = fill(options_, pages_, to_device); !filled) return filled;
  }
  if (!with_floor_) return {};
  Result<Floor> floor = Floor::make(options_.device, sizes);
  if (!floor) return tl::unexpected(floor.error());
  floor_ = std::move(*floor);
  Result<Floor::Lane> lane = floor_.make_lane();
  if (!lane) return tl::unexpected(lane.error());
  if (traits_.empty) return {};
  return fill(options_, pages_, [&lane](std::span<Request> batch) { lane->submit(batch); });
}

Result<Measured> Runner::run_device(const Plan& plan) {
  if (traits_.empty) device_.reset();
  if (traits_.verify) {
    std::vector<Verifier> verifiers;
    verifiers.reserve(options_.threads);
    for (unsigned i = 0; i < options_.threads; ++i) verifiers.emplace_back(plan, i, device_);
    return run_team(options_.threads, [&](unsigned i, Tally& tally) { verifiers[i].run(tally); });
  }
  std::vector<Worker> workers;
  workers.reserve(options_.threads);
  for (unsigned i = 0; i < options_.threads; ++i) workers.emplace_back(plan, i);
  return run_team(options_.threads, [&](unsigned i, Tally& tally) {
    workers[i].run(tally, [this](std::span<Request> batch) { device_.submit(batch); });
  });
}

Result<Measured> Runner::run_floor(const Plan& plan) {
  if (traits_.empty) floor_.clear();
  std::vector<Worker> workers;
  std::vector<Floor::Lane> lanes;
  workers.reserve(options_.threads);
  for (unsigned i = 0; i < options_.threads; ++i) {
    workers.emplace_back(plan, i);
    Result<Floor::Lane> lane = floor_.make_lane();
    if (!lane) return tl::unexpected(lane.error());
    lanes.push_back(std::move(*lane));
  }
  return run_team(options_.threads, [&](unsigned i, Tally& tally) {
    workers[i].run(tally, [&lane = lanes[i]](std::span<Request> batch) { lane.submit(batch); });
  });
}

Result<RunResult> Runner::run(Profile profile) {
  RunResult result;
  result.profile = profile;
  result.options = options_;
  const unsigned rounds = with_floor_ ? kFloorRounds : 1;
  std::vector<double> iops;
  std::vector<double> floor_iops;
  Measured floor_sum;
  for (unsigned i = 0; i < rounds; ++i) {
    const Plan plan{.options = options_,
                    .traits = traits_,
                    .pages = pages_,
                    .duration_ns = std::uint64_t{1'000'000'000} * options_.seconds / rounds,
                    .seed = mix(options_.seed, i)};
    Round round;
    if (with_floor_) {
      const Result<Measured> floor = run_floor(plan);
      if (!floor) return fail(floor.error().status, "floor: " + floor.error().message);
      round.floor_iops = floor->iops();
      floor_iops.push_back(floor->iops());
      floor_sum += *floor;
    }
    const Result<Measured> measured = run_device(plan);
    if (!measured) return tl::unexpected(measured.error());
    round.iops = measured->iops();
    iops.push_back(round.iops);
    result.measured += *measured;
    result.rounds.push_back(round);
  }
  result.iops = median(iops);
  if (with_floor_) {
    result.floor_iops = median(floor_iops);
    result.floor_cpu_us_per_request = floor_sum.cpu_us_per_request();
  }
  result.stats = device_.stats();
  floor_ = Floor();
  result.rss_bytes = resident_bytes();
  return result;
}

}  // namespace

double RunResult::bytes_per_s() const noexcept {
  return iops * static_cast<double>(options.record_bytes);
}

double RunResult::usr_percent() const noexcept {
  return 100 * measured.usage.usr_s / measured.seconds;
}

double RunResult::sys_percent() const noexcept {
  return 100 * measured.usage.sys_s / measured.seconds;
}

std::optional<double> RunResult::floor_ratio() const noexcept {
  if (!floor_iops) return std::nullopt;
  return iops / *floor_iops;
}

Result<RunResult> run_profile(const Options& options, Profile profile, const SourcePages& pages,
                              Device& device) {
  try {
    Options resolved = options;
    if (const codec::Codec* found = codec::find(options.device.codec);
        options.device.type == DeviceType::zram && found != nullptr) {
      const auto params = codec::check_params(*found, options.device.params);
      if (!params) return tl::unexpected(params.error());
      resolved.device.codec = found->info().name;
      resolved.device.params.level = params->level;
    }
    const Result<PackedSizes> sizes = measure_packed(options.device, pages);
    if (!sizes) return tl::unexpected(sizes.error());
    if (Result<void> memory = check_memory(options, *sizes); !memory) {
      return tl::unexpected(memory.error());
    }
    Runner runner(resolved, profile, pages, device);
    if (Result<void> prepared = runner.prepare(*sizes); !prepared) {
      return tl::unexpected(prepared.error());
    }
    return runner.run(profile);
  } catch (const std::bad_alloc&) {
    return fail(Status::no_memory,
                std::string(traits_of(profile).name) + ": no memory for the buffers of the run");
  }
}

}  // namespace uzram::bench
