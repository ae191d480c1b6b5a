#include "control/attributes.h"

#include <algorithm>
#include <iterator>

#include "control/attribute_values.h"

namespace uzram::control {
namespace {

// First what the kernel has, in its order; then the rest, counters in the order of Stats.
constexpr Attribute kAttributes[] = {
    {.name = "disksize",
     .unit = "bytes",
     .help = "size of the device, rounded up to a page; writing it makes device and attachments",
     .read = read_disksize,
     .write = write_disksize,
     .when = When::before_size,
     .kernel = true},
    {.name = "initstate",
     .help = "1: the device has a size and serves",
     .read = read_initstate,
     .kernel = true},
    {.name = "reset",
     .help = "1: drop data, size, settings and attachments; ready for a new disksize",
     .write = write_reset,
     .kernel = true},
    {.name = "comp_algorithm",
     .help = "the codecs, the selected one in brackets; write one's name",
     .read = read_comp_algorithm,
     .write = write_comp_algorithm,
     .when = When::before_size,
     .kernel = true},
    {.name = "algorithm_params",
     .help = "[priority=0..3] [algo=CODEC] [level=N] [dict=/PATH] [deflate.winbits=N]: replaces "
             "all parameters of that codec",
     .write = write_algorithm_params,
     .when = When::before_size,
     .kernel = true},
    {.name = "recomp_algorithm",
     .help = "codecs that recompress may use: algo=CODEC [priority=1..3]",
     .read = read_recomp_algorithm,
     .write = write_recomp_algorithm,
     .when = When::before_size,
     .kernel = true},
    {.name = "mem_limit",
     .unit = "bytes",
     .help = "most memory that mem_used_total may reach, rounded up to a page; 0: no limit",
     .counter = &Stats::mem_limit,
     .write = write_mem_limit,
     .kernel = true},
    {.name = "mem_used_max",
     .unit = "bytes",
     .help = "peak of mem_used_total; write 0: begin anew at what is used now",
     .counter = &Stats::mem_used_max,
     .write = write_mem_used_max,
     .kernel = true},
    {.name = "idle",
     .help = "mark pages idle until they are used: all, or those not used for so many seconds",
     .write = write_idle,
     .when = When::with_size,
     .kernel = true,
     .takes_long = true},
    {.name = "recompress",
     .help = "pack pages anew, largest first: [type=idle|huge|huge_idle] [threshold=BYTES] "
             "[max_pages=N] [priority=1..3] [algo=CODEC]",
     .write = write_recompress,
     .when = When::with_size,
     .kernel = true,
     .takes_long = true},
    {.name = "compact",
     .help = "any value: give memory back now rather than in the background",
     .write = write_compact,
     .when = When::with_size,
     .kernel = true,
     .takes_long = true},
    {.name = "backing_dev",
     .help = "where write-back moves pages: the path of a file or block device, nbd:// or "
             "nbd+unix:// URI; none: nowhere. What it holds is lost",
     .read = read_backing_dev,
     .write = write_backing_dev,
     .when = When::before_size,
     .kernel = true},
    {.name = "writeback",
     .help = "move pages to backing_dev, largest first: idle|huge|huge_idle|incompressible, or "
             "[type=...] [page_index=N ...] [page_indexes=FIRST-LAST ...]",
     .write = write_writeback,
     .when = When::with_size,
     .kernel = true,
     .takes_long = true},
    {.name = "writeback_limit",
     .unit = "blocks",
     .help = "how many blocks of 4096 bytes write-back may still write, if writeback_limit_enable",
     .read = read_writeback_limit,
     .write = write_writeback_limit,
     .kernel = true},
    {.name = "writeback_limit_enable",
     .help = "1: writeback_limit counts; 0: it does not",
     .read = read_writeback_limit_enable,
     .write = write_writeback_limit_enable,
     .kernel = true},
    {.name = "writeback_batch_size",
     .unit = "count",
     .help = "writes to backing_dev that are in flight at the same time, from 1",
     .read = read_writeback_batch_size,
     .write = write_writeback_batch_size,
     .kernel = true},
    {.name = "compressed_writeback",
     .help = "1: pages go to backing_dev as they are packed, several to a block; 0: unpacked",
     .read = read_compressed_writeback,
     .write = write_compressed_writeback,
     .when = When::before_size,
     .kernel = true},
    {.name = "mm_stat",
     .help = "orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages "
             "pages_compacted huge_pages huge_pages_since",
     .read = read_mm_stat,
     .kernel = true},
    {.name = "io_stat",
     .help = "failed_reads failed_writes invalid_io notify_free",
     .read = read_io_stat,
     .kernel = true},
    {.name = "bd_stat",
     .help = "bd_count bd_reads bd_writes",
     .read = read_bd_stat,
     .kernel = true},
    {.name = "debug_stat",
     .help = "version, writes that had to allocate twice, frees that were put off: neither happens",
     .read = read_debug_stat,
     .kernel = true},
    {.name = "block_state",
     .help = "a line per stored page: its index, when it was last used in seconds since boot, and "
             "s(ame-filled) w(ritten back) h(uge) i(dle) r(ecompressed) n(ot compressible)",
     .read_part = read_block_state,
     .kernel = true},
    {.name = "resize",
     .unit = "bytes",
     .help = "another size, rounded up to a page, while the device is in use; smaller only where "
             "what is cut holds no data, whatever is mounted",
     .write = write_resize,
     .when = When::with_size,
     .takes_long = true},
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
    {.name = "bd_count",
     .unit = "blocks",
     .help = "blocks of 4096 bytes that are in use on backing_dev",
     .counter = &Stats::bd_count},
    {.name = "bd_reads",
     .unit = "blocks",
     .help = "blocks of 4096 bytes read from backing_dev",
     .counter = &Stats::bd_reads},
    {.name = "bd_writes",
     .unit = "blocks",
     .help = "blocks of 4096 bytes written to backing_dev",
     .counter = &Stats::bd_writes},
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
  if (const Attribute* row = find_attribute(name)) return row;
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

const Attribute* find_attribute(std::string_view name) noexcept {
  const auto* row =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [name](const Attribute& attribute) { return attribute.name == name; });
  return row == std::end(kAttributes) ? nullptr : row;
}

View view_of(const Host& host) {
  if (const auto device = host.device()) {
    View view{device->options(), device->stats(), device->write_back_limits(), true};
    view.options.size_bytes = device->size_bytes();
    return view;
  }
  View view{host.options(), {}, {}, false};
  view.limits = view.options.write_back;
  view.options.size_bytes = 0;
  view.stats.mem_limit = view.options.mem_limit_bytes;
  return view;
}

Result<std::string> read_attribute(const Host& host, std::string_view name) {
  const auto row = find(name);
  if (!row) return tl::unexpected(row.error());
  const Attribute& attribute = **row;
  if (!attribute.readable()) {
    return fail(Status::permission, std::string(name) + ": can only be written");
  }
  if (attribute.in_parts()) {
    return fail(Status::invalid_argument, std::string(name) + ": is read in parts");
  }
  const View view = view_of(host);
  if (attribute.counter != nullptr) return std::to_string(view.stats.*attribute.counter);
  return attribute.read(view);
}

Part read_attribute_part(const Host& host, const Attribute& attribute, std::uint64_t from) {
  const auto device = host.device();
  return device ? attribute.read_part(*device, from) : Part();
}

Result<void> write_attribute(Host& host, std::string_view name, std::string_view value) {
  const auto row = find(name);
  if (!row) return tl::unexpected(row.error());
  const Attribute& attribute = **row;
  if (!attribute.writable()) {
    return fail(Status::permission, std::string(name) + ": can only be read");
  }
  if (attribute.when == When::with_size && !host.device()) {
    return fail(Status::invalid_argument,
                std::string(name) + ": the device has no size yet, write disksize first");
  }
  auto written = attribute.write(host, value);
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
