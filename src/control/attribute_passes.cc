// The attributes that choose codecs for recompression, and those that start passes over pages.
#include <algorithm>
#include <optional>

#include "codec/codec.h"
#include "control/attribute_values.h"
#include "control/param_text.h"

namespace uzram::control {
namespace {

// 1 .. kRecompressPriorities.
Result<unsigned> parse_priority(std::string_view text) {
  const auto number = parse_count(text, kRecompressPriorities);
  if (number && *number > 0) return static_cast<unsigned>(*number);
  return fail(Status::invalid_argument, "must be 1 to " + std::to_string(kRecompressPriorities));
}

// The priority at which a codec was chosen for recompression; none where it was not.
std::optional<unsigned> priority_of(const DeviceOptions& options, const std::string& codec) {
  for (unsigned i = 0; i < kRecompressPriorities; ++i) {
    const auto& choice = options.recompress_codecs[i];
    if (choice && choice->name == codec) return i + 1;
  }
  return std::nullopt;
}

Result<void> set_recompress_param(RecompressOptions& pass, const DeviceOptions& options,
                                  std::string_view key, std::string_view value) {
  if (key == "type") {
    const auto pages = parse_page_class(value);
    if (!pages) return tl::unexpected(pages.error());
    pass.pages = *pages;
    return {};
  }
  if (key == "priority") {
    const auto priority = parse_priority(value);
    if (!priority) return tl::unexpected(priority.error());
    pass.priority = *priority;
    return {};
  }
  if (key == "algo") {
    const codec::Codec* const codec = codec::find(value);
    const auto priority =
        codec != nullptr ? priority_of(options, codec->info().name) : std::optional<unsigned>();
    if (!priority) return fail(Status::invalid_argument, "not in recomp_algorithm");
    pass.priority = *priority;
    return {};
  }
  if (key != "threshold" && key != "max_pages") {
    return fail(Status::invalid_argument,
                "unknown parameter, known are: type threshold max_pages priority algo");
  }
  const std::uint64_t most = key == "threshold" ? kPageBytes : ~std::uint64_t{0};
  const auto number = parse_count(value, most);
  if (!number) return tl::unexpected(number.error());
  if (key == "threshold") pass.threshold_bytes = static_cast<std::uint32_t>(*number);
  if (key == "max_pages") pass.pages_max = *number;
  return {};
}

}  // namespace

Result<PageClass> parse_page_class(std::string_view text) {
  if (text == "idle") return PageClass::idle;
  if (text == "huge") return PageClass::huge;
  if (text == "huge_idle") return PageClass::huge_idle;
  return fail(Status::invalid_argument, "must be idle, huge or huge_idle");
}

Result<void> pass_result(const Result<std::uint64_t>& pages) {
  if (pages) return {};
  const Status status = pages.error().status;
  return fail(status == Status::not_supported ? Status::invalid_argument : status,
              pages.error().message);
}

std::string read_recomp_algorithm(const View& view) {
  std::string text;
  for (unsigned i = 0; i < kRecompressPriorities; ++i) {
    const auto& choice = view.options.recompress_codecs[i];
    if (!choice) continue;
    if (!text.empty()) text += '\n';
    text += "#" + std::to_string(i + 1) + ": " + codec_list(choice->name);
  }
  return text;
}

Result<void> write_recomp_algorithm(Host& host, std::string_view value) {
  const codec::Codec* codec = nullptr;
  unsigned priority = 1;
  auto parsed =
      for_each_param(value, [&](std::string_view key, std::string_view text) -> Result<void> {
        if (key == "algo") {
          codec = codec::find(text);
          if (codec != nullptr) return {};
          return fail(Status::invalid_argument, "unknown codec, known are: " + codec_names());
        }
        if (key != "priority") {
          return fail(Status::invalid_argument, "unknown parameter, known are: algo priority");
        }
        const auto number = parse_priority(text);
        if (!number) return tl::unexpected(number.error());
        priority = *number;
        return {};
      });
  if (!parsed) return parsed;
  if (codec == nullptr) {
    return fail(Status::invalid_argument, "'" + std::string(value) + "': algo=CODEC is missing");
  }
  return host.configure([&](DeviceOptions& options) -> Result<void> {
    if (auto compresses = check_compresses(options); !compresses) return compresses;
    options.recompress_codecs[priority - 1] = CodecChoice{codec->info().name};
    return {};
  });
}

Result<void> write_recompress(Host& host, std::string_view value) {
  RecompressOptions pass;
  const DeviceOptions options = host.options();
  auto parsed = for_each_param(value, [&](std::string_view key, std::string_view text) {
    return set_recompress_param(pass, options, key, text);
  });
  if (!parsed) return parsed;
  return host.run_pass([&pass](Device& device) { return pass_result(device.recompress(pass)); });
}

Result<void> write_idle(Host& host, std::string_view value) {
  std::uint64_t age = 0;
  if (value != "all") {
    const auto seconds = parse_count(value, ~std::uint64_t{0});
    if (!seconds) {
      return fail(Status::invalid_argument,
                  "'" + std::string(value) + "': must be all, or an age in seconds");
    }
    age = *seconds;
  }
  return host.run_pass([age](Device& device) { return pass_result(device.mark_idle(age)); });
}

}  // namespace uzram::control
