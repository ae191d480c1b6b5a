#include "control/attribute_values.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/units.h"
#include "codec/codec.h"

namespace uzram::control {
namespace {

std::string join(std::initializer_list<std::uint64_t> columns) {
  std::string line;
  for (const std::uint64_t column : columns) {
    if (!line.empty()) line += ' ';
    line += std::to_string(column);
  }
  return line;
}

tl::unexpected<Error> refuse(Status status, std::string_view value, std::string_view why) {
  return fail(status, "'" + std::string(value) + "': " + std::string(why));
}

// `value` before the message of who knows only the rule.
template <typename T>
Result<T> naming(std::string_view value, Result<T> result) {
  if (!result) result.error().message = "'" + std::string(value) + "': " + result.error().message;
  return result;
}

Result<void> check_compresses(const DeviceOptions& options) {
  if (options.type == DeviceType::zram) return {};
  return fail(Status::invalid_argument, "a ram device does not compress");
}

// A parameter that the codec doesn't take is refused when it is set, not when the device is made.
Result<void> check_level(const DeviceOptions& options) {
  const codec::Codec* codec = codec::find(options.codec);
  if (codec == nullptr) return fail(Status::invalid_argument, options.codec + ": unknown codec");
  const auto level = codec::check_level(*codec, options.level);
  if (!level) return tl::unexpected(level.error());
  return {};
}

// What algorithm_params takes; a parameter that is not given goes back to its default.
struct AlgorithmParams {
  std::optional<std::string> algo;
  std::optional<int> level;
};

Result<int> parse_int(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end) {
    return fail(Status::invalid_argument, "not a whole number");
  }
  return number;
}

Result<void> set_param(AlgorithmParams& params, std::string_view key, std::string_view value) {
  if (key == "algo") {
    params.algo = value;
    return {};
  }
  if (key != "level" && key != "priority") {
    return fail(Status::invalid_argument, "unknown parameter, known are: priority algo level");
  }
  const auto number = parse_int(value);
  if (!number) return tl::unexpected(number.error());
  if (key == "level") params.level = *number;
  if (key == "priority" && *number != 0) {
    return fail(Status::invalid_argument, "must be 0, the only priority there is");
  }
  return {};
}

// "KEY=VALUE", separated by blanks; at least one.
Result<AlgorithmParams> parse_algorithm_params(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  AlgorithmParams params;
  bool any = false;
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos || sign == 0 || sign + 1 == word.size()) {
      return refuse(Status::invalid_argument, word, "must be KEY=VALUE");
    }
    auto set = naming(word, set_param(params, word.substr(0, sign), word.substr(sign + 1)));
    if (!set) return tl::unexpected(set.error());
    any = true;
    begin = text.find_first_not_of(kBlanks, end);
  }
  if (!any) return refuse(Status::invalid_argument, text, "must be KEY=VALUE");
  return params;
}

}  // namespace

std::string read_disksize(const View& view) {
  return std::to_string(view.options.size_bytes);
}

std::string read_initstate(const View& view) {
  return view.running ? "1" : "0";
}

std::string read_comp_algorithm(const View& view) {
  const std::string selected = algorithm_of(view.options);
  std::string list;
  for (const CodecInfo& codec : codecs()) {
    if (!list.empty()) list += ' ';
    list += codec.name == selected ? "[" + codec.name + "]" : codec.name;
  }
  return list;
}

std::string read_mm_stat(const View& view) {
  const Stats& s = view.stats;
  return join({s.orig_data_size, s.compr_data_size, s.mem_used_total, s.mem_limit, s.mem_used_max,
               s.same_pages, s.pages_compacted, s.huge_pages, s.huge_pages_since});
}

std::string read_io_stat(const View& view) {
  const Stats& s = view.stats;
  return join({s.failed_reads, s.failed_writes, s.invalid_io, s.notify_free});
}

// The kernel's two counters are of writes that had to ask for memory once more and of frees that
// met a locked slot and were left undone. Here neither happens: they are for who parses the
// columns.
std::string read_debug_stat(const View&) {
  return "version: 1\n0 0";
}

Result<void> write_disksize(Host& host, std::string_view value) {
  const auto bytes = base::parse_size(value, kDeviceBytesMax);
  if (!bytes) return tl::unexpected(bytes.error());
  if (*bytes == 0) return refuse(Status::invalid_argument, value, "must be at least 1 byte");
  return naming(value, host.init(round_up_to_page(*bytes)));
}

Result<void> write_reset(Host& host, std::string_view value) {
  if (value != "1") return refuse(Status::invalid_argument, value, "must be 1");
  return host.drop();
}

Result<void> write_comp_algorithm(Host& host, std::string_view value) {
  const codec::Codec* const codec = codec::find(value);
  if (codec == nullptr) {
    return refuse(Status::invalid_argument, value, "unknown codec, known are: " + codec_names());
  }
  return naming(value, host.configure([codec](DeviceOptions& options) -> Result<void> {
    if (auto compresses = check_compresses(options); !compresses) return compresses;
    options.codec = codec->info().name;
    auto fits = check_level(options);
    if (!fits) fits.error().message += "; algorithm_params priority=0 goes back to the default";
    return fits;
  }));
}

Result<void> write_algorithm_params(Host& host, std::string_view value) {
  const auto params = parse_algorithm_params(value);
  if (!params) return tl::unexpected(params.error());
  return naming(value, host.configure([&params](DeviceOptions& options) -> Result<void> {
    if (auto compresses = check_compresses(options); !compresses) return compresses;
    if (params->algo && *params->algo != options.codec) {
      return fail(Status::invalid_argument, "comp_algorithm is " + options.codec);
    }
    options.level = params->level;
    return check_level(options);
  }));
}

Result<void> write_mem_limit(Host& host, std::string_view value) {
  const auto bytes = base::parse_size(value, kDeviceBytesMax);
  if (!bytes) return tl::unexpected(bytes.error());
  const std::uint64_t limit = round_up_to_page(*bytes);
  for (;;) {
    if (const auto device = host.device()) {
      device->set_mem_limit(limit);
      return {};
    }
    auto set = host.configure([limit](DeviceOptions& options) -> Result<void> {
      options.mem_limit_bytes = limit;
      return {};
    });
    // Busy: it has got its device since we looked.
    if (set || set.error().status != Status::busy) return set;
  }
}

Result<void> write_mem_used_max(Host& host, std::string_view value) {
  if (value != "0") return refuse(Status::invalid_argument, value, "must be 0");
  if (const auto device = host.device()) device->reset_mem_used_max();
  return {};
}

Result<void> write_compact(Host& host, std::string_view) {
  return host.run_pass([](Device& device) -> Result<void> {
    device.compact();
    return {};
  });
}

}  // namespace uzram::control
