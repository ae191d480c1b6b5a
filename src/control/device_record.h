// What others can read about a device without asking its process.
//
// What: the contents of NAME.json in the runtime directory, also the answer of device.info.
// Units: bytes. Ownership: values. Threading: values.
// Errors: a file that isn't such a record is not_supported or io_error, never a crash.
#ifndef UZRAM_CONTROL_DEVICE_RECORD_H_
#define UZRAM_CONTROL_DEVICE_RECORD_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "uzram/result.h"

namespace uzram::control {

struct AttachmentRecord {
  std::string kind;      // "nbd", "loop"
  std::string where;     // URI or path that a client opens
  std::string argument;  // as it was asked for: "auto", "unix:PATH"; may be empty
  friend bool operator==(const AttachmentRecord&, const AttachmentRecord&) = default;
};

struct DeviceRecord {
  std::string name;
  std::int64_t pid = 0;
  std::string type;              // "zram", "ram"
  std::string algo;              // "-" for a device that does not compress
  std::uint64_t size_bytes = 0;  // 0: the device is new, it has no size yet
  std::uint64_t block_size_bytes = 0;
  bool read_only = false;
  std::vector<AttachmentRecord> attachments;
  std::string backing = {};              // where its backing store is; empty: it has none
  std::uint64_t backing_size_bytes = 0;  // of whole blocks
  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};

// "running" or "new".
std::string_view state_of(const DeviceRecord& record) noexcept;

nlohmann::json to_json(const DeviceRecord& record);
Result<DeviceRecord> record_of_json(const nlohmann::json& json);

// Replaces the file as a whole: a reader sees the old record or the new one.
Result<void> write_record(const std::string& path, const DeviceRecord& record);
Result<DeviceRecord> read_record(const std::string& path);

// One line of JSON; bytes that aren't UTF-8 (a path may hold them) become U+FFFD.
std::string dump_line(const nlohmann::json& json);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_DEVICE_RECORD_H_
