#include "control/attribute_values.h"

#include <optional>

#include "base/units.h"
#include "codec/codec.h"
#include "control/codec_settings.h"
#include "control/param_text.h"

namespace uzram::control {
namespace {

tl::unexpected<Error> refuse(Status status, std::string_view value, std::string_view why) {
  return fail(status, "'" + std::string(value) + "': " + std::string(why));
}

// `value` before the message of who knows only the rule.
template <typename T>
Result<T> naming(std::string_view value, Result<T> result) {
  if (!result) result.error().message = "'" + std::string(value) + "': " + result.error().message;
  return result;
}

// What algorithm_params takes; a parameter that is not given goes back to its default.
struct AlgorithmParams {
  std::optional<unsigned> priority;
  std::optional<std::string> algo, dictionary_path;
  CodecParams codec;
};

Result<void> set_param(AlgorithmParams& params, std::string_view key, std::string_view value) {
  if (key == "algo") {
    const codec::Codec* const codec = codec::find(value);
    params.algo = codec != nullptr ? codec->info().name : std::string(value);
    return {};
  }
  if (key == "priority") {
    const auto number = parse_count(value, kRecompressPriorities);
    if (!number) return tl::unexpected(number.error());
    params.priority = static_cast<unsigned>(*number);
    return {};
  }
  if (key == "dict") {
    // Another process than the writer's reads it, from a directory of its own.
    if (!value.starts_with('/')) return fail(Status::invalid_argument, "must be an absolute path");
    params.dictionary_path = value;
    return {};
  }
  if (key != "level" && key != "deflate.winbits") {
    return fail(Status::invalid_argument,
                "unknown parameter, known are: priority algo level dict deflate.winbits");
  }
  const auto number = parse_int(value);
  if (!number) return tl::unexpected(number.error());
  (key == "level" ? params.codec.level : params.codec.window_bits) = *number;
  return {};
}

Result<void> read_params_dictionary(AlgorithmParams& params) {
  if (!params.dictionary_path) return {};
  auto dictionary = read_dictionary(*params.dictionary_path);
  if (!dictionary) {
    return refuse(dictionary.error().status, "dict=" + *params.dictionary_path,
                  dictionary.error().message);
  }
  params.codec.dictionary = std::move(*dictionary);
  return {};
}

std::optional<CodecChoice> codec_at(const DeviceOptions& options, unsigned priority) {
  if (priority == 0) return CodecChoice{options.codec, options.params};
  return options.recompress_codecs[priority - 1];
}

// The priority that is meant, by number or by the codec's name; the first codec where neither says.
Result<unsigned> find_priority(const DeviceOptions& options, const AlgorithmParams& params) {
  const auto is_there = [&](unsigned priority) {
    const auto choice = codec_at(options, priority);
    return choice && (!params.algo || *params.algo == choice->name);
  };
  for (unsigned i = 0; i <= kRecompressPriorities; ++i) {
    if ((!params.priority || *params.priority == i) && is_there(i)) return i;
  }
  return fail(Status::invalid_argument,
              "no such codec is chosen by comp_algorithm or "
              "recomp_algorithm");
}

Result<std::uint64_t> parse_device_size(std::string_view value) {
  const auto bytes = base::parse_size(value, kDeviceBytesMax);
  if (!bytes) return bytes;
  if (*bytes == 0) return refuse(Status::invalid_argument, value, "must be at least 1 byte");
  return round_up_to_page(*bytes);
}

}  // namespace

Result<void> check_compresses(const DeviceOptions& options) {
  if (options.type == DeviceType::zram) return {};
  return fail(Status::invalid_argument, "a ram device does not compress");
}

std::string codec_list(std::string_view selected) {
  std::string list;
  for (const CodecInfo& codec : codecs()) {
    if (!list.empty()) list += ' ';
    list += codec.name == selected ? "[" + codec.name + "]" : codec.name;
  }
  return list;
}

std::string join(std::initializer_list<std::uint64_t> columns) {
  std::string line;
  for (const std::uint64_t column : columns) {
    if (!line.empty()) line += ' ';
    line += std::to_string(column);
  }
  return line;
}

std::string read_disksize(const View& view) {
  return std::to_string(view.options.size_bytes);
}

std::string read_initstate(const View& view) {
  return view.running ? "1" : "0";
}

std::string read_comp_algorithm(const View& view) {
  return codec_list(algorithm_of(view.options));
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
  const auto bytes = parse_device_size(value);
  if (!bytes) return tl::unexpected(bytes.error());
  return naming(value, host.init(*bytes));
}

Result<void> write_resize(Host& host, std::string_view value) {
  const auto bytes = parse_device_size(value);
  if (!bytes) return tl::unexpected(bytes.error());
  return naming(value, host.resize(*bytes));
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
    const auto fits = check_codec({options.codec, options.params});
    if (fits) return {};
    return fail(fits.error().status,
                fits.error().message + "; algorithm_params priority=0 goes back to the default");
  }));
}

Result<void> write_algorithm_params(Host& host, std::string_view value) {
  AlgorithmParams params;
  bool any = false;
  auto parsed = for_each_param(value, [&](std::string_view key, std::string_view text) {
    any = true;
    return set_param(params, key, text);
  });
  if (!parsed) return parsed;
  if (!any) return refuse(Status::invalid_argument, value, "must be KEY=VALUE");
  if (auto read = read_params_dictionary(params); !read) return read;
  return naming(value, host.configure([&params](DeviceOptions& options) -> Result<void> {
    if (auto compresses = check_compresses(options); !compresses) return compresses;
    const auto priority = find_priority(options, params);
    if (!priority) return tl::unexpected(priority.error());
    const auto fits = check_codec({codec_at(options, *priority)->name, params.codec});
    if (!fits) return tl::unexpected(fits.error());
    (*priority == 0 ? options.params : options.recompress_codecs[*priority - 1]->params) =
        params.codec;
    return {};
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
