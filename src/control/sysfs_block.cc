#include "control/sysfs_block.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <nlohmann/json.hpp>

#include "uzram/device.h"

namespace uzram::control {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kSectorBytes = 512;
// The kernel counts discards in 32 bits of sectors, and shows whole pages of that.
constexpr std::uint64_t kDiscardBytesMax = ((std::uint64_t{1} << 32) - 8) * kSectorBytes;

std::string block_size(const DeviceRecord& record) {
  return std::to_string(record.block_size_bytes);
}

std::string page_size(const DeviceRecord&) {
  return std::to_string(kPageBytes);
}

std::string discard_max(const DeviceRecord&) {
  return std::to_string(kDiscardBytesMax);
}

std::string zero(const DeviceRecord&) {
  return "0";
}

std::string one(const DeviceRecord&) {
  return "1";
}

bool is_block_device(const std::string& path, struct stat& info) {
  return ::stat(path.c_str(), &info) == 0 && S_ISBLK(info.st_mode);
}

std::string device_number(const DeviceRecord& record) {
  struct stat info = {};
  const std::string path = device_path(record);
  if (path.empty() || !is_block_device(path, info)) return "";
  return std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
}

// Seventeen columns: requests, merges, sectors and milliseconds of reads and of writes; in flight,
// two times; the same four of discards; flushes and their time. Merges and times aren't counted.
std::string stat_columns(const Json& stat) {
  const auto counter = [&stat](const char* name) { return stat.at(name).get<std::uint64_t>(); };
  const std::uint64_t columns[17] = {counter("reads"),
                                     0,
                                     counter("read_bytes") / kSectorBytes,
                                     0,
                                     counter("writes"),
                                     0,
                                     counter("write_bytes") / kSectorBytes,
                                     0,
                                     0,
                                     0,
                                     0,
                                     counter("discards"),
                                     0,
                                     counter("discard_bytes") / kSectorBytes,
                                     0,
                                     counter("flushes"),
                                     0};
  std::string line;
  for (const std::uint64_t column : columns) {
    std::string text = std::to_string(column);
    if (text.size() < 8) text.insert(0, 8 - text.size(), ' ');
    line += (line.empty() ? "" : " ") + text;
  }
  return line;
}

constexpr BlockFile kBlockFiles[] = {
    {"alignment_offset", zero},
    {"capability", zero},
    {"dev", device_number},
    {"discard_alignment", zero},
    {"ext_range", one},
    {"hidden", zero},
    {"inflight", [](const DeviceRecord&) -> std::string { return "       0        0"; }},
    {"range", one},
    {"removable", zero},
    {"ro", [](const DeviceRecord& record) -> std::string { return record.read_only ? "1" : "0"; }},
    {"size",
     [](const DeviceRecord& record) { return std::to_string(record.size_bytes / kSectorBytes); }},
    {"stat", nullptr, stat_columns},
};

constexpr BlockFile kQueueFiles[] = {
    {"add_random", zero},
    {"chunk_sectors", zero},
    {"dax", zero},
    {"discard_granularity", page_size},
    {"discard_max_bytes", discard_max},
    {"discard_max_hw_bytes", discard_max},
    {"discard_zeroes_data", zero},
    {"fua", zero},
    {"hw_sector_size", block_size},
    {"io_poll", zero},
    {"iostats", one},
    {"logical_block_size", block_size},
    {"max_hw_sectors_kb", [](const DeviceRecord&) -> std::string { return "1024"; }},
    {"max_sectors_kb", [](const DeviceRecord&) -> std::string { return "1024"; }},
    {"max_segments", [](const DeviceRecord&) -> std::string { return "128"; }},
    {"minimum_io_size", page_size},
    {"nomerges", zero},
    {"nr_requests", [](const DeviceRecord&) -> std::string { return "128"; }},
    {"nr_zones", zero},
    {"optimal_io_size", page_size},
    {"physical_block_size", page_size},
    {"read_ahead_kb", [](const DeviceRecord&) -> std::string { return "128"; }},
    {"rotational", zero},
    {"scheduler", [](const DeviceRecord&) -> std::string { return "none"; }},
    {"stable_writes", one},
    {"write_cache", [](const DeviceRecord&) -> std::string { return "write through"; }},
    {"write_zeroes_max_bytes", discard_max},
    {"zoned", [](const DeviceRecord&) -> std::string { return "none"; }},
};

}  // namespace

std::span<const BlockFile> block_files() {
  return kBlockFiles;
}

std::span<const BlockFile> queue_files() {
  return kQueueFiles;
}

std::string device_path(const DeviceRecord& record) {
  std::string found;
  struct stat info = {};
  for (const AttachmentRecord& attachment : record.attachments) {
    if (!attachment.where.starts_with('/')) continue;
    if (is_block_device(attachment.where, info)) return attachment.where;
    if (found.empty()) found = attachment.where;
  }
  return found;
}

}  // namespace uzram::control
