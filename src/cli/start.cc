#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "backing/scheme.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/device_process.h"
#include "cli/output.h"
#include "control/attributes.h"
#include "control/backing_setting.h"
#include "control/codec_settings.h"
#include "control/runtime_dir.h"

namespace uzram::cli {
namespace {

// `option` before the message of a parser that knows only the value.
tl::unexpected<Error> blame(std::string_view option, const Error& error) {
  return fail(error.status, std::string(option) + " " + error.message);
}

tl::unexpected<Error> refuse(std::string_view option, std::string_view value,
                             std::string_view rule) {
  return fail(Status::invalid_argument,
              std::string(option) + " '" + std::string(value) + "': " + std::string(rule));
}

Result<std::uint64_t> parse_device_size(const std::string& text) {
  const auto bytes = base::parse_size(text, kDeviceBytesMax);
  if (!bytes) return blame("--size", bytes.error());
  if (*bytes == 0) return refuse("--size", text, "must be at least 1 byte");
  return control::round_up_to_page(*bytes);
}

Result<DeviceType> parse_type(const std::string& text) {
  if (text == "zram") return DeviceType::zram;
  if (text == "ram") return DeviceType::ram;
  return refuse("--type", text, "must be zram or ram");
}

Result<void> choose_codec(const StartArguments& arguments, DeviceOptions& options) {
  if (options.type == DeviceType::ram) {
    if (!arguments.algo && !arguments.level && !arguments.dict) return {};
    return fail(Status::invalid_argument,
                "--algo, --level, --dict: a ram device does not compress");
  }
  CodecChoice choice{arguments.algo.value_or(options.codec)};
  if (arguments.level) {
    const auto level = base::parse_int(*arguments.level);
    if (!level) return blame("--level", level.error());
    choice.params.level = *level;
  }
  if (arguments.dict) {
    auto dictionary = control::read_dictionary(*arguments.dict);
    if (!dictionary) return refuse("--dict", *arguments.dict, dictionary.error().message);
    choice.params.dictionary = std::move(*dictionary);
  }
  const auto checked = control::check_codec(choice);
  if (!checked) return tl::unexpected(checked.error());
  options.codec = checked->name;
  options.params = checked->params;
  return {};
}

Result<DeviceOptions> device_options(const StartArguments& arguments) {
  DeviceOptions options;
  if (arguments.size) {
    const auto size = parse_device_size(*arguments.size);
    if (!size) return tl::unexpected(size.error());
    options.size_bytes = *size;
  }
  const auto type = parse_type(arguments.type.value_or("zram"));
  if (!type) return tl::unexpected(type.error());
  options.type = *type;
  if (auto chosen = choose_codec(arguments, options); !chosen) {
    return tl::unexpected(chosen.error());
  }
  if (arguments.mem_limit) {
    const auto limit = base::parse_size(*arguments.mem_limit, kDeviceBytesMax);
    if (!limit) return blame("--mem-limit", limit.error());
    options.mem_limit_bytes = control::round_up_to_page(*limit);
  }
  options.read_only = arguments.read_only;
  return options;
}

// As the device's process can open it, from a directory of its own.
Result<std::string> backing_place(const StartArguments& arguments, DeviceType type) {
  if (!arguments.backing) return std::string();
  const std::string& where = *arguments.backing;
  if (where.empty()) return refuse("--backing", where, "must be a path or an NBD URI");
  if (type == DeviceType::ram) {
    return fail(Status::invalid_argument, "--backing: a ram device has no backing store");
  }
  if (arguments.count) {
    return fail(Status::invalid_argument, "--backing: one store can't serve several devices");
  }
  if (!backing::scheme_of(where).empty()) return where;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(where, error);
  if (error) return fail_errno(error.value(), "--backing " + where);
  return absolute.string();
}

Result<StartOptions> start_options(const StartArguments& arguments) {
  auto device = device_options(arguments);
  if (!device) return tl::unexpected(device.error());
  auto backing = backing_place(arguments, device->type);
  if (!backing) return tl::unexpected(backing.error());
  StartOptions options{"", std::move(*device), std::move(*backing), 4096, {}, false};
  const std::string block_size = arguments.block_size.value_or("4096");
  if (block_size != "512" && block_size != "4096") {
    return refuse("--block-size", block_size, "must be 512 or 4096");
  }
  options.block_size = block_size == "512" ? 512 : 4096;
  if (arguments.nbd) {
    if (arguments.nbd->empty())
      return refuse("--nbd", "", "must be unix:PATH, tcp:HOST:PORT or auto");
    auto spec = check_attachment({"nbd", *arguments.nbd});
    if (!spec) return tl::unexpected(spec.error());
    options.attachments.push_back(std::move(*spec));
  }
  if (arguments.loop) options.attachments.push_back({"loop", ""});
  if (arguments.attach && *arguments.attach != "auto") {
    return refuse("--attach", *arguments.attach, "must be auto");
  }
  options.attach_auto = arguments.attach.has_value();
  return options;
}

// NAME, or with --count the names that its %d stands for.
Result<std::vector<std::string>> device_names(const StartArguments& arguments) {
  constexpr std::uint64_t kCountMax = 1024;
  constexpr std::string_view kPlace = "%d";
  std::vector<std::string> names = {arguments.name};
  if (arguments.count) {
    const auto count = base::parse_count(*arguments.count, kCountMax);
    if (!count) return blame("--count", count.error());
    if (*count == 0) return refuse("--count", *arguments.count, "must be at least 1");
    if (arguments.foreground) {
      return fail(Status::invalid_argument, "--count: one process can't serve them in foreground");
    }
    const std::size_t place = arguments.name.find(kPlace);
    if (place == std::string::npos || place != arguments.name.rfind(kPlace)) {
      return refuse("name", arguments.name, "with --count it must hold %d once");
    }
    names.assign(*count, arguments.name);
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i].replace(place, kPlace.size(), std::to_string(i));
    }
  }
  for (const std::string& name : names) {
    if (auto named = control::check_name(name); !named) return tl::unexpected(named.error());
  }
  return names;
}

Outcome start_one(const StartOptions& options, const control::RuntimeDir& dir, const Ready& print) {
  return run_in_background(
      "'" + options.name + "'",
      [&](const Ready& ready) { return serve_device(options, dir, ready); }, print);
}

void stop_all(std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (auto stopped = stop_device(name, true); !stopped) {
      static_cast<void>(report(stopped.error()));
    }
  }
}

// The line of an error, "uzram: what: why", that also tells whose it is.
std::string naming(const std::string& name, const std::string& line) {
  const std::size_t colon = line.find(' ') + 1;
  return line.substr(0, colon) + "'" + name + "': " + line.substr(colon);
}

// All of them or none; their lines are printed when all are usable.
int start_several(StartOptions options, const std::vector<std::string>& names,
                  const control::RuntimeDir& dir) {
  std::string lines;
  const Ready keep = [&lines](std::string_view text) -> Result<void> {
    lines += text;
    return {};
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    options.name = names[i];
    const Outcome outcome = start_one(options, dir, keep);
    if (outcome.in_service) return outcome.status;
    if (outcome.status == kExitDone) continue;
    stop_all(std::span(names).first(i));
    return report_line(naming(names[i], outcome.error_line), outcome.status);
  }
  const int status = finish(lines);
  if (status != kExitDone) stop_all(names);
  return status;
}

}  // namespace

int run_start(const StartArguments& arguments) {
  const auto names = device_names(arguments);
  if (!names) return report(names.error());
  auto options = start_options(arguments);
  if (!options) return report(options.error());
  const auto dir = control::RuntimeDir::create();
  if (!dir) return report(dir.error());
  if (arguments.count) return start_several(std::move(*options), *names, *dir);
  options->name = names->front();
  if (!arguments.foreground) return report(start_one(*options, *dir, print));
  const auto served = serve_device(*options, *dir, print);
  return served ? kExitDone : report(served.error());
}

}  // namespace uzram::cli
