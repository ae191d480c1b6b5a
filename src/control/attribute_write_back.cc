// The attributes of write-back: the backing store, what moves there, and how much may.
#include <optional>

#include "backing/scheme.h"
#include "backing/store.h"
#include "base/units.h"
#include "control/attribute_values.h"
#include "control/backing_setting.h"
#include "control/param_text.h"

namespace uzram::control {
namespace {

constexpr std::string_view kNone = "none";

tl::unexpected<Error> refuse(std::string_view value, std::string_view why) {
  return fail(Status::invalid_argument, "'" + std::string(value) + "': " + std::string(why));
}

Result<void> check_can_have_store(const DeviceOptions& options) {
  if (options.type == DeviceType::zram) return {};
  return fail(Status::invalid_argument, "a ram device has no backing store");
}

Result<bool> parse_switch(std::string_view value) {
  if (value == "0") return false;
  if (value == "1") return true;
  return refuse(value, "must be 0 or 1");
}

Result<PageClass> parse_mode(std::string_view text) {
  if (text == "incompressible") return PageClass::incompressible;
  if (const auto pages = parse_page_class(text)) return *pages;
  return fail(Status::invalid_argument, "must be idle, huge, huge_idle or incompressible");
}

Result<PageRange> parse_range(std::string_view text) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return fail(Status::invalid_argument, "must be FIRST-LAST");
  }
  const auto first = parse_count(text.substr(0, dash), kMost);
  if (!first) return tl::unexpected(first.error());
  const auto last = parse_count(text.substr(dash + 1), kMost);
  if (!last) return tl::unexpected(last.error());
  return PageRange{*first, *last};
}

// A write to writeback, word by word.
struct Wanted {
  std::optional<PageClass> pages;
  std::vector<PageRange> ranges;

  Result<void> add(std::string_view word);
};

Result<void> Wanted::add(std::string_view word) {
  const std::size_t sign = word.find('=');
  const bool named = sign != std::string_view::npos;
  const std::string_view key = named ? word.substr(0, sign) : "type";
  const std::string_view value = named ? word.substr(sign + 1) : word;
  if (key == "type") {
    if (pages) return fail(Status::invalid_argument, "a second type");
    const auto mode = parse_mode(value);
    if (!mode) return tl::unexpected(mode.error());
    pages = *mode;
    return {};
  }
  if (key != "page_index" && key != "page_indexes") {
    return fail(Status::invalid_argument,
                "unknown parameter, known are: type page_index page_indexes");
  }
  Result<PageRange> range;
  if (key == "page_indexes") {
    range = parse_range(value);
  } else if (const auto page = parse_count(value, ~std::uint64_t{0})) {
    range = PageRange{*page, *page};
  } else {
    range = tl::unexpected(page.error());
  }
  if (!range) return tl::unexpected(range.error());
  ranges.push_back(*range);
  return {};
}

Result<void> change_limits(Host& host, const WriteBackLimitsChange& change) {
  if (auto possible = check_can_have_store(host.options()); !possible) return possible;
  return host.limit_write_back(change);
}

}  // namespace

std::string read_backing_dev(const View& view) {
  return view.options.backing ? view.options.backing->where() : std::string(kNone);
}

std::string read_bd_stat(const View& view) {
  return join({view.stats.bd_count, view.stats.bd_reads, view.stats.bd_writes});
}

std::string read_writeback_limit(const View& view) {
  return std::to_string(view.limits.budget_blocks);
}

std::string read_writeback_limit_enable(const View& view) {
  return view.limits.limited ? "1" : "0";
}

std::string read_writeback_batch_size(const View& view) {
  return std::to_string(view.limits.batch_size);
}

std::string read_compressed_writeback(const View& view) {
  return view.options.compressed_writeback ? "1" : "0";
}

Result<void> write_backing_dev(Host& host, std::string_view value) {
  // Another process than the writer's opens it, from a directory of its own.
  if (value != kNone && backing::scheme_of(value).empty() && !value.starts_with('/')) {
    return refuse(value, "must be an absolute path, an NBD URI or none");
  }
  return host.configure([value](DeviceOptions& options) -> Result<void> {
    if (auto possible = check_can_have_store(options); !possible) return possible;
    if (value == kNone) {
      options.backing = nullptr;
      return {};
    }
    if (options.backing && options.backing->where() == value) return {};
    auto store = open_backing(std::string(value));
    if (!store) return tl::unexpected(store.error());
    options.backing = std::move(*store);
    return {};
  });
}

Result<void> write_writeback(Host& host, std::string_view value) {
  Wanted wanted;
  auto parsed = for_each_word(value, [&](std::string_view word) { return wanted.add(word); });
  if (!parsed) return parsed;
  if (!wanted.pages && wanted.ranges.empty()) {
    return refuse(value, "must name a type of pages, or pages");
  }
  const WriteBackOptions pass{wanted.pages.value_or(PageClass::all), std::move(wanted.ranges)};
  return host.run_pass([&pass](Device& device) { return pass_result(device.write_back(pass)); });
}

Result<void> write_writeback_limit(Host& host, std::string_view value) {
  const auto blocks = base::parse_count(value, ~std::uint64_t{0});
  if (!blocks) return tl::unexpected(blocks.error());
  return change_limits(host, {.budget_blocks = *blocks});
}

Result<void> write_writeback_limit_enable(Host& host, std::string_view value) {
  const auto on = parse_switch(value);
  if (!on) return tl::unexpected(on.error());
  return change_limits(host, {.limited = *on});
}

Result<void> write_writeback_batch_size(Host& host, std::string_view value) {
  const auto size = base::parse_count(value, ~std::uint32_t{0});
  if (!size) return tl::unexpected(size.error());
  if (*size == 0) return refuse(value, "must be at least 1");
  return change_limits(host, {.batch_size = static_cast<std::uint32_t>(*size)});
}

Result<void> write_compressed_writeback(Host& host, std::string_view value) {
  const auto on = parse_switch(value);
  if (!on) return tl::unexpected(on.error());
  return host.configure([&on](DeviceOptions& options) -> Result<void> {
    if (auto possible = check_can_have_store(options); !possible) return possible;
    options.compressed_writeback = *on;
    return {};
  });
}

}  // namespace uzram::control
