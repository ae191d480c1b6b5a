// The sysfs-shaped tree: what scripts know of the kernel's zram, over all devices of a runtime
// directory.
//
//   class/zram-control/hot_add      reading it starts a new device zramN and gives N
//   class/zram-control/hot_remove   writing N to it stops zramN
//   block/NAME/...                  the attributes that the kernel's driver has, and what every
//                                   block device has there
//   dev/NAME                        a symbolic link to where the device can be opened
//
// What: looks up, lists, reads and writes the files by their paths; sysfs_mount.h mounts them.
// Units: a file's text is whole lines, as the kernel gives it.
// Ownership: values; nothing is kept of a device from one call to the next.
// Threading: every function by any thread at any time. A process that hangs costs a read
//   kReadPatience, a write kWritePatience, but for one that takes long while the process is alive.
// Errors: not_found for what is not in the tree, no_device for a device that has gone, and what the
//   attributes say.
#ifndef UZRAM_CONTROL_SYSFS_TREE_H_
#define UZRAM_CONTROL_SYSFS_TREE_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/attributes.h"
#include "control/runtime_dir.h"
#include "control/sysfs_block.h"

namespace uzram::control {

class SysfsTree {
 public:
  static constexpr std::chrono::milliseconds kReadPatience{5'000};
  static constexpr std::chrono::milliseconds kWritePatience{30'000};
  // The longest value that can be written, as in the kernel.
  static constexpr std::size_t kWriteBytesMax = 4096;

  // Starts a new device of that name (exists where it is taken); stops one.
  using Act = std::function<Result<void>(const std::string& name)>;
  SysfsTree(RuntimeDir dir, Act start, Act stop)
      : dir_(std::move(dir)), start_(std::move(start)), stop_(std::move(stop)) {}

  enum class Kind : std::uint8_t { directory, link, attribute, block_file, hot_add, hot_remove };
  struct Node {
    Kind kind = Kind::directory;
    std::string device = {};                // in block/ and dev/
    const Attribute* attribute = nullptr;   // Kind::attribute
    const BlockFile* block_file = nullptr;  // Kind::block_file
    bool readable() const noexcept;
    bool writable() const noexcept;
    bool is_file() const noexcept { return kind != Kind::directory && kind != Kind::link; }
  };

  // `path` begins with a slash.
  Result<Node> look_up(std::string_view path) const;
  // The names in a directory.
  Result<std::vector<std::string>> list(std::string_view path) const;
  Result<std::string> link_target(const Node& link) const;
  // The part of the file's text that begins at `from`, 0 at first; most have but one.
  Result<Part> read(const Node& file, std::uint64_t from) const;
  // One write is one store; a newline at its end is taken off.
  Result<void> write(const Node& file, std::string_view text) const;

 private:
  // The record of a device whose process lives.
  std::optional<DeviceRecord> living(const std::string& name) const;
  Result<Node> look_up_device(const std::vector<std::string>& parts) const;
  Result<Part> read_attribute_of(const Node& file, std::uint64_t from) const;
  Result<std::string> read_block_file(const Node& file) const;
  Result<std::string> hot_add() const;
  Result<void> hot_remove(std::string_view number) const;

  const RuntimeDir dir_;
  const Act start_, stop_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_SYSFS_TREE_H_
