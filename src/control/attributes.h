// The attribute table: everything about a device that has a name.
//
// What: one row per attribute, with the names, formats and errors of the kernel's sysfs attributes
//   of zram where it has one. `get`, `set`, `stat`, their JSON-RPC methods, the sysfs-shaped tree,
//   the help texts and the manual are all made from this table.
// Units: as each row says. Ownership: the table is constant. Threading: as Host.
// Errors: invalid_argument (an unknown name, listing the known; a value that does not parse, naming
//   the rule; too early: the device has no size yet), permission (not readable, not writable), busy
//   (in use; too late: fixed while the device runs), and what the act itself meets.
#ifndef UZRAM_CONTROL_ATTRIBUTES_H_
#define UZRAM_CONTROL_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/host.h"
#include "uzram/device.h"
#include "uzram/result.h"
#include "uzram/stats.h"

namespace uzram::control {

// A device as its attributes show it; a new one has counters of 0.
struct View {
  DeviceOptions options;
  Stats stats;
  WriteBackLimits limits;
  bool running = false;
};

// Some whole lines of a value that may be far longer than a line of the control socket.
struct Part {
  std::string text = {};
  std::optional<std::uint64_t> next = {};  // where the part behind it begins; none: it is the last
};

// When an attribute can be written.
enum class When : std::uint8_t {
  always,
  before_size,  // busy once the device has a size
  with_size,    // invalid_argument until it has one
};

struct Attribute {
  std::string_view name;
  std::string_view unit = {};  // "bytes", "pages", "blocks", "count", or empty
  std::string_view help = {};
  // Where the value is one counter, that counter.
  std::uint64_t Stats::*counter = nullptr;
  // How any other readable value is made.
  std::string (*read)(const View& view) = nullptr;
  // Where the value is read in parts, the one that begins at `from`; a new device has none.
  Part (*read_part)(const Device& device, std::uint64_t from) = nullptr;
  Result<void> (*write)(Host& host, std::string_view value) = nullptr;
  When when = When::always;
  bool kernel = false;      // zram's driver has it, too: part of the sysfs-shaped tree
  bool takes_long = false;  // to write it may take minutes

  bool in_parts() const noexcept { return read_part != nullptr; }
  bool readable() const noexcept { return counter != nullptr || read != nullptr || in_parts(); }
  bool writable() const noexcept { return write != nullptr; }
  // "r", "w" or "rw".
  std::string_view access() const noexcept;
};

std::span<const Attribute> attributes();
// nullptr where there is none of that name.
const Attribute* find_attribute(std::string_view name) noexcept;

View view_of(const Host& host);
// One that is read whole; invalid_argument for one that is read in parts.
Result<std::string> read_attribute(const Host& host, std::string_view name);
// `attribute` is read in parts; the first begins at 0.
Part read_attribute_part(const Host& host, const Attribute& attribute, std::uint64_t from);
Result<void> write_attribute(Host& host, std::string_view name, std::string_view value);

// The size that a device or limit really gets: up to a whole page, as the kernel does, but no
// further than the largest size there is.
constexpr std::uint64_t round_up_to_page(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kPagesMax = kDeviceBytesMax / kPageBytes;
  const std::uint64_t pages = bytes / kPageBytes + (bytes % kPageBytes != 0 ? 1 : 0);
  return pages > kPagesMax ? kDeviceBytesMax : pages * kPageBytes;
}

// What a device of that type is said to compress with.
std::string algorithm_of(const DeviceOptions& options);
std::string_view type_name(DeviceType type) noexcept;
// The names of all codecs, separated by blanks.
std::string codec_names();

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_ATTRIBUTES_H_
