#include "bench/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace uzram::bench {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1000;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string_view type_name(const DeviceOptions& device) {
  return device.type == DeviceType::zram ? "zram" : "ram";
}

Json to_json(const RunResult& run) {
  const Options& options = run.options;
  const bool zram = options.device.type == DeviceType::zram;
  const base::Histogram& latency = run.measured.latency;
  Json rounds = Json::array();
  for (const Round& round : run.rounds) {
    rounds.push_back({{"iops", round.iops}, {"floor_iops", or_null(round.floor_iops)}});
  }
  return {
      {"profile", traits_of(run.profile).name},
      {"type", type_name(options.device)},
      {"algo", zram ? Json(options.device.codec) : Json(nullptr)},
      {"level", zram ? or_null(options.device.params.level) : Json(nullptr)},
      {"size", options.device.size_bytes},
      {"threads", options.threads},
      {"batch", options.batch},
      {"record", options.record_bytes},
      {"seconds", options.seconds},
      {"seed", options.seed},
      {"data", describe(options.data)},
      {"floor", options.floor},
      {"iops", run.iops},
      {"bytes_per_s", run.bytes_per_s()},
      {"lat_us",
       {{"p50", microseconds(latency.percentile(0.50))},
        {"p99", microseconds(latency.percentile(0.99))},
        {"p999", microseconds(latency.percentile(0.999))},
        {"max", microseconds(latency.max())},
        {"mean", latency.mean() / 1000},
        {"samples", latency.count()}}},
      {"cpu", {{"usr_pct", run.usr_percent()}, {"sys_pct", run.sys_percent()}}},
      {"cpu_us_per_request", run.measured.cpu_us_per_request()},
      {"ctx_voluntary", run.measured.usage.ctx_voluntary},
      {"ctx_involuntary", run.measured.usage.ctx_involuntary},
      {"floor_iops", or_null(run.floor_iops)},
      {"floor_ratio", or_null(run.floor_ratio())},
      {"floor_cpu_us_per_request", or_null(run.floor_cpu_us_per_request)},
      {"rounds", rounds},
      {"requests", run.measured.requests},
      {"elapsed_s", run.measured.seconds},
      {"orig_data_size", run.stats.orig_data_size},
      {"compr_data_size", run.stats.compr_data_size},
      {"mem_used_total", run.stats.mem_used_total},
      {"rss_bytes", run.rss_bytes},
  };
}

}  // namespace

std::string json_of(std::span<const RunResult> runs) {
  Json array = Json::array();
  for (const RunResult& run : runs) array.push_back(to_json(run));
  // A path among the options may be any bytes; what isn't UTF-8 is replaced, not refused.
  return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string table_header(const Options& options) {
  std::string text(type_name(options.device));
  if (options.device.type == DeviceType::zram) {
    text += " " + options.device.codec;
    if (options.device.params.level)
      text += " level " + std::to_string(*options.device.params.level);
  }
  text += ", " + base::format_size(options.device.size_bytes) + " of " + describe(options.data) +
          " data, record " + base::format_size(options.record_bytes) + ", batch " +
          std::to_string(options.batch) + ", threads " + std::to_string(options.threads) + ", " +
          (options.seconds > 0 ? std::to_string(options.seconds) + " s" : "each record once") +
          "\n";
  char line[200];
  std::snprintf(line, sizeof line, "%-10s %9s %8s %8s %8s %8s %9s %5s %5s %7s %7s %6s %6s %8s\n",
                "profile", "IOPS", "MiB/s", "p50 us", "p99 us", "p99.9", "max us", "usr%", "sys%",
                "ctx vol", "invol", "floor", "ratio", "memory");
  return text + line;
}

std::string table_row(const RunResult& run) {
  const base::Histogram& latency = run.measured.latency;
  char floor[16] = "-";
  if (const std::optional<double> ratio = run.floor_ratio()) {
    std::snprintf(floor, sizeof floor, "%.3f", *ratio);
  }
  char packed[16] = "-";
  if (run.stats.compr_data_size > 0) {
    std::snprintf(packed, sizeof packed, "%.2f",
                  static_cast<double>(run.stats.orig_data_size) /
                      static_cast<double>(run.stats.compr_data_size));
  }
  char line[240];
  std::snprintf(line, sizeof line,
                "%-10s %9.0f %8.0f %8.2f %8.2f %8.2f %9.1f %5.0f %5.0f %7llu %7llu %6s %6s %8s\n",
                std::string(traits_of(run.profile).name).c_str(), run.iops,
                run.bytes_per_s() / (1024 * 1024), microseconds(latency.percentile(0.50)),
                microseconds(latency.percentile(0.99)), microseconds(latency.percentile(0.999)),
                microseconds(latency.max()), run.usr_percent(), run.sys_percent(),
                static_cast<unsigned long long>(run.measured.usage.ctx_voluntary),
                static_cast<unsigned long long>(run.measured.usage.ctx_involuntary), floor, packed,
                base::format_size(run.stats.mem_used_total).c_str());
  return line;
}

}  // namespace uzram::bench
