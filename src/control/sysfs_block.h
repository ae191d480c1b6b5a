// The files that every block device has under /sys/block/NAME, beside zram's own.
//
// What: size, ro, stat, dev and so on, and those of queue/, with the kernel's names and formats.
// Units: sectors of 512 bytes, bytes or KiB, as the kernel has them. Ownership: constant tables.
// Threading: pure. Errors: none.
#ifndef UZRAM_CONTROL_SYSFS_BLOCK_H_
#define UZRAM_CONTROL_SYSFS_BLOCK_H_

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "control/device_record.h"

namespace uzram::control {

struct BlockFile {
  std::string_view name;
  // From the device's record; empty where the device has no such file at the moment.
  std::string (*of_record)(const DeviceRecord& record) = nullptr;
  // Else from the answer of device.stat.
  std::string (*of_stat)(const nlohmann::json& stat) = nullptr;
};

std::span<const BlockFile> block_files();
std::span<const BlockFile> queue_files();

// Where the device can be opened as a file, a block device if there is one; empty where it can't.
std::string device_path(const DeviceRecord& record);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_SYSFS_BLOCK_H_
