#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/units.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/source_pages.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace uzram::cli {
namespace {

// As typed; an option that was not given is absent.
struct BenchArguments {
  std::string profile;
  std::optional<std::string> type, algo, level, size, threads, batch, record, seconds, seed, data;
  std::optional<std::string> json;
  bool floor = false;
};

tl::unexpected<Error> blame(std::string_view option, const Error& error) {
  return fail(error.status, std::string(option) + " " + error.message);
}

tl::unexpected<Error> refuse(std::string_view option, std::string_view value,
                             std::string_view rule) {
  return fail(Status::invalid_argument,
              std::string(option) + " '" + std::string(value) + "': " + std::string(rule));
}

// Leaves `value` alone when the option was not given.
template <typename Value>
Result<void> take(std::string_view option, const std::optional<std::string>& text,
                  Result<std::uint64_t> (*parse)(std::string_view, std::uint64_t),
                  std::uint64_t max, Value& value) {
  if (!text) return {};
  const Result<std::uint64_t> parsed = parse(*text, max);
  if (!parsed) return blame(option, parsed.error());
  value = static_cast<Value>(*parsed);
  return {};
}

Result<void> take_codec(const BenchArguments& arguments, DeviceOptions& device) {
  const std::string type = arguments.type.value_or("zram");
  if (type != "zram" && type != "ram") return refuse("--type", type, "must be zram or ram");
  device.type = type == "zram" ? DeviceType::zram : DeviceType::ram;
  if (type == "ram" && (arguments.algo || arguments.level)) {
    return fail(Status::invalid_argument, "--algo, --level: a ram device does not compress");
  }
  if (arguments.algo) device.codec = *arguments.algo;
  if (arguments.level) {
    const auto level = base::parse_int(*arguments.level);
    if (!level) return fail(level.error().status, "--level " + level.error().message);
    device.params.level = *level;
  }
  return {};
}

Result<bench::Options> bench_options(const BenchArguments& arguments) {
  using base::parse_count;
  using base::parse_size;
  bench::Options options;
  for (const Result<void>& taken : {
           take_codec(arguments, options.device),
           take("--size", arguments.size, parse_size, bench::kSizeMax, options.device.size_bytes),
           take("--threads", arguments.threads, parse_count, bench::kThreadsMax, options.threads),
           take("--batch", arguments.batch, parse_count, bench::kBatchMax, options.batch),
           take("--record", arguments.record, parse_size, bench::kRecordMax, options.record_bytes),
           take("--seconds", arguments.seconds, parse_count, bench::kSecondsMax, options.seconds),
           take("--seed", arguments.seed, parse_count, kDeviceBytesMax, options.seed),
       }) {
    if (!taken) return tl::unexpected(taken.error());
  }
  if (arguments.data) {
    Result<bench::Data> data = bench::parse_data(*arguments.data);
    if (!data) return blame("--data", data.error());
    options.data = std::move(*data);
  }
  options.floor = arguments.floor;
  if (Result<void> checked = bench::check(options); !checked) {
    return tl::unexpected(checked.error());
  }
  return options;
}

Result<void> write_file(int fd, const std::string& path, std::string_view text) {
  // What can't be cut short, a pipe or a terminal, has nothing to cut.
  if (::ftruncate(fd, 0) != 0 && errno != EINVAL) return fail_errno(errno, path);
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// Each on a device of its own, so that none inherits the memory of another.
Result<void> run_profiles(const bench::Options& options,
                          const std::vector<bench::Profile>& profiles,
                          std::vector<bench::RunResult>& runs) {
  const Result<bench::SourcePages> pages = bench::SourcePages::make(options.data, options.seed);
  if (!pages) return blame("--data", pages.error());
  if (Result<void> printed = print(bench::table_header(options)); !printed) return printed;
  for (const bench::Profile profile : profiles) {
    const Result<std::unique_ptr<Device>> device = create_device(options.device);
    if (!device) return tl::unexpected(device.error());
    Result<bench::RunResult> run = bench::run_profile(options, profile, *pages, **device);
    if (!run) return tl::unexpected(run.error());
    if (Result<void> printed = print(bench::table_row(*run)); !printed) return printed;
    runs.push_back(std::move(*run));
  }
  return {};
}

int run_bench(const BenchArguments& arguments) {
  const Result<std::vector<bench::Profile>> profiles = bench::parse_profiles(arguments.profile);
  if (!profiles) return report(profiles.error());
  const Result<bench::Options> options = bench_options(arguments);
  if (!options) return report(options.error());

  // Opened before the work: a path that can't be written must not cost a run.
  base::Fd json;
  if (arguments.json) {
    json.reset(::open(arguments.json->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!json) return report(fail_errno(errno, "--json " + *arguments.json).value());
  }
  std::vector<bench::RunResult> runs;
  const Result<void> done = run_profiles(*options, *profiles, runs);
  if (json && !(runs.empty() && !done)) {
    // The runs that ended are kept when a later one fails.
    const Result<void> written = write_file(json.get(), *arguments.json, bench::json_of(runs));
    if (done && !written) return report(written.error());
  }
  return done ? kExitDone : report(done.error());
}

void add_load_options(CLI::App& command, BenchArguments& arguments) {
  command
      .add_option("--size", arguments.size,
                  "Size of the device, 1G unless given, with K M G T (powers of 1024)")
      ->type_name("SIZE");
  command.add_option("--record", arguments.record, "Bytes per request, 512 to 4M; 4K unless given")
      ->type_name("SIZE");
  command
      .add_option("--batch", arguments.batch,
                  "Requests that are submitted together, 1 to 1024; 1 unless given")
      ->type_name("N");
  command.add_option("--threads", arguments.threads, "Threads, 1 to 256; 1 unless given")
      ->type_name("N");
  command
      .add_option("--seconds", arguments.seconds,
                  "Time of measuring per profile; 0 (the default): each record once")
      ->type_name("N");
  command.add_option("--seed", arguments.seed, "Seed of the data and of the order; 1 unless given")
      ->type_name("N");
  command
      .add_option("--data", arguments.data,
                  "half (pages that lz4 halves, the default), zero, random or file:PATH")
      ->type_name("DATA");
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure a device inside of this process, without any attachment");
  command
      ->add_option(
          "PROFILE", arguments->profile,
          "seq-write rand-write seq-read rand-read mixed-seq mixed-rand, verify (random\n"
          "writes with crc32c, read back and checked), or all. seq-write and verify start\n"
          "with an empty device, the others with a filled one")
      ->required()
      ->type_name("");
  command->add_option("--type", arguments->type, "zram (compressed, the default) or ram (not)")
      ->type_name("TYPE");
  command->add_option("--algo", arguments->algo, "Codec of a zram device, lz4 unless given")
      ->type_name("CODEC");
  command->add_option("--level", arguments->level, "Level of the codec")->type_name("N");
  add_load_options(*command, *arguments);
  command->add_flag("--floor", arguments->floor,
                    "Also measure the codec alone: the same pages in the same order and batches,\n"
                    "from and to a flat array, in turns with the device; medians of three rounds");
  command->add_option("--json", arguments->json, "Write the results to this file, an array of runs")
      ->type_name("FILE");
  command->callback([arguments, &exit_code] { exit_code = run_bench(*arguments); });
}

}  // namespace uzram::cli
