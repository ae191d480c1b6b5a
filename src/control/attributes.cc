#include "control/attributes.h"

#include <algorithm>
#include <iterator>

#include "base/units.h"

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

std::string read_comp_algorithm(const Device& device) {
  const std::string selected = algorithm_of(device.options());
  std::string list;
  for (const CodecInfo& codec : codecs()) {
    if (!list.empty()) list += ' ';
    list += codec.name == selected ? "[" + codec.name + "]" : codec.name;
  }
  return list;
}

std::string read_mm_stat(const Device& device) {
  const Stats s = device.stats();
  return join({s.orig_data_size, s.compr_data_size, s.mem_used_total, s.mem_limit, s.mem_used_max,
               s.same_pages, s.pages_compacted, s.huge_pages, s.huge_pages_since});
}

std::string read_io_stat(const Device& device) {
  const Stats s = device.stats();
  return join({s.failed_reads, s.failed_writes, s.invalid_io, s.notify_free});
}

tl::unexpected<Error> refuse(Status status, std::string_view value, std::string_view why) {
  return fail(status, "'" + std::string(value) + "': " + std::string(why));
}

// disksize and comp_algorithm are chosen when the device starts; the kernel's driver, too, refuses
// them from then on, after it has looked at the value.
Result<void> write_disksize(Host&, std::string_view value) {
  const auto bytes = base::parse_size(value, kDeviceBytesMax);
  if (!bytes) return tl::unexpected(bytes.error());
  if (*bytes == 0) return refuse(Status::invalid_argument, value, "must be at least 1 byte");
  return refuse(Status::busy, value, "is fixed while the device is running");
}

Result<void> write_comp_algorithm(Host&, std::string_view value) {
  const auto known = codecs();
  const bool found = std::any_of(known.begin(), known.end(),
                                 [value](const CodecInfo& codec) { return codec.name == value; });
  if (!found) {
    return refuse(Status::invalid_argument, value, "unknown codec, known are: " + codec_names());
  }
  return refuse(Status::busy, value, "is fixed while the device is running");
}

Result<void> write_mem_limit(Host& host, std::string_view value) {
  const auto bytes = base::parse_size(value, kDeviceBytesMax);
  if (!bytes) return tl::unexpected(bytes.error());
  host.device().set_mem_limit(round_up_to_page(*bytes));
  return {};
}

Result<void> write_mem_used_max(Host& host, std::string_view value) {
  if (value != "0") return refuse(Status::invalid_argument, value, "must be 0");
  host.device().reset_mem_used_max();
  return {};
}

Result<void> write_compact(Host& host, std::string_view) {
  host.device().compact();
  return {};
}

Result<void> write_reset(Host& host, std::string_view value) {
  if (value != "1") return refuse(Status::invalid_argument, value, "must be 1");
  return host.reset(false);
}

// First what the kernel has, in its order; then the rest, counters in the order of Stats.
constexpr Attribute kAttributes[] = {
    {.name = "disksize",
     .unit = "bytes",
     .help = "size of the device; chosen at start",
     .read = [](const Device& device) { return std::to_string(device.size_bytes()); },
     .write = write_disksize},
    {.name = "initstate",
     .unit = "",
     .help = "1: the device has a size and serves",
     .read = [](const Device&) { return std::string("1"); }},
    {.name = "reset", .unit = "", .help = "1: drop all data and counters", .write = write_reset},
    {.name = "comp_algorithm",
     .unit = "",
     .help = "the codecs, the selected one in brackets; chosen at start",
     .read = read_comp_algorithm,
     .write = write_comp_algorithm},
    {.name = "mem_limit",
     .unit = "bytes",
     .help = "most memory that mem_used_total may reach, rounded up to a page; 0: no limit",
     .counter = &Stats::mem_limit,
     .write = write_mem_limit},
    {.name = "mem_used_max",
     .unit = "bytes",
     .help = "peak of mem_used_total; write 0: begin anew at what is used now",
     .counter = &Stats::mem_used_max,
     .write = write_mem_used_max},
    {.name = "compact",
     .unit = "",
     .help = "any value: give memory back now rather than in the background",
     .write = write_compact},
    {.name = "mm_stat",
     .unit = "",
     .help = "orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages "
             "pages_compacted huge_pages huge_pages_since",
     .read = read_mm_stat},
    {.name = "io_stat",
     .unit = "",
     .help = "failed_reads failed_writes invalid_io notify_free",
     .read = read_io_stat},
    {.name = "orig_data_size",
     .unit = "bytes",
     .help = "stored pages x 4096, same-filled ones too",
     .counter = &Stats::orig_data_size},
    {.name = "compr_data_size",
     .unit = "bytes",
     .help = "packed bytes of all stored pages; a page kept raw counts 4096",
     .counter = &Stats::compr_data_size},
    {.name = "mem_used_total",
     .unit = "bytes",
     .help = "memory that the pool holds from the system; the limit is on this",
     .counter = &Stats::mem_used_total},
    {.name = "same_pages",
     .unit = "pages",
     .help = "stored pages that repeat one word and take no pool memory",
     .counter = &Stats::same_pages},
    {.name = "pages_compacted",
     .unit = "count",
     .help = "objects moved by compaction",
     .counter = &Stats::pages_compacted},
    {.name = "huge_pages",
     .unit = "pages",
     .help = "stored pages kept raw because they do not compress",
     .counter = &Stats::huge_pages},
    {.name = "huge_pages_since",
     .unit = "count",
     .help = "pages ever kept raw",
     .counter = &Stats::huge_pages_since},
    {.name = "failed_reads",
     .unit = "count",
     .help = "reads that failed",
     .counter = &Stats::failed_reads},
    {.name = "failed_writes",
     .unit = "count",
     .help = "writes that failed, for lack of space above all",
     .counter = &Stats::failed_writes},
    {.name = "invalid_io",
     .unit = "count",
     .help = "requests refused for their range or kind",
     .counter = &Stats::invalid_io},
    {.name = "notify_free",
     .unit = "count",
     .help = "stored pages freed by discard",
     .counter = &Stats::notify_free},
    {.name = "reads", .unit = "count", .help = "reads done", .counter = &Stats::reads},
    {.name = "read_bytes", .unit = "bytes", .help = "bytes read", .counter = &Stats::read_bytes},
    {.name = "writes", .unit = "count", .help = "writes done", .counter = &Stats::writes},
    {.name = "write_bytes",
     .unit = "bytes",
     .help = "bytes written",
     .counter = &Stats::write_bytes},
    {.name = "discards",
     .unit = "count",
     .help = "discards and write-zeroes done",
     .counter = &Stats::discards},
    {.name = "discard_bytes",
     .unit = "bytes",
     .help = "bytes discarded or zeroed",
     .counter = &Stats::discard_bytes},
    {.name = "flushes", .unit = "count", .help = "flushes done", .counter = &Stats::flushes},
    {.name = "metadata_bytes",
     .unit = "bytes",
     .help = "memory beside the pool: slot tables, headers, fill words",
     .counter = &Stats::metadata_bytes},
    {.name = "huge_page_bytes",
     .unit = "bytes",
     .help = "part of mem_used_total that was asked to be backed by huge pages",
     .counter = &Stats::huge_page_bytes},
};

Result<const Attribute*> find(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [name](const Attribute& attribute) { return attribute.name == name; });
  if (row != std::end(kAttributes)) return row;
  std::string names;
  for (const Attribute& attribute : kAttributes) names += " " + std::string(attribute.name);
  return fail(Status::invalid_argument,
              "'" + std::string(name) + "': unknown attribute, known are:" + names);
}

}  // namespace

std::string_view Attribute::access() const noexcept {
  if (!writable()) return "r";
  return readable() ? "rw" : "w";
}

std::span<const Attribute> attributes() {
  return kAttributes;
}

Result<std::string> read_attribute(const Device& device, std::string_view name) {
  const auto row = find(name);
  if (!row) return tl::unexpected(row.error());
  const Attribute& attribute = **row;
  if (attribute.counter != nullptr) return std::to_string(device.stats().*attribute.counter);
  if (attribute.read != nullptr) return attribute.read(device);
  return fail(Status::permission, std::string(name) + ": can only be written");
}

Result<void> write_attribute(Host& host, std::string_view name, std::string_view value) {
  const auto row = find(name);
  if (!row) return tl::unexpected(row.error());
  if (!(*row)->writable())
    return fail(Status::permission, std::string(name) + ": can only be read");
  auto written = (*row)->write(host, value);
  if (!written) written.error().message = std::string(name) + " " + written.error().message;
  return written;
}

std::string algorithm_of(const DeviceOptions& options) {
  return options.type == DeviceType::zram ? options.codec : "-";
}

std::string_view type_name(DeviceType type) noexcept {
  return type == DeviceType::zram ? "zram" : "ram";
}

std::string codec_names() {
  std::string names;
  for (const CodecInfo& codec : codecs()) names += (names.empty() ? "" : " ") + codec.name;
  return names;
}

}  // namespace uzram::control
