// Loop devices on our file, and only those.
//
// What: binds a free /dev/loopN to a file and lets it go again. Before each change the device is
//   opened and its backing file compared with ours: while it is open it can't be bound anew.
// Units: bytes. Ownership: none; no descriptor but a claim's outlives a call (loop.h says why).
// Threading: pure, but for the kernel's table. The caller's session must be served by other
//   threads: the kernel asks the file system while a call runs.
// Errors: busy where others hold the device.
#ifndef UZRAM_ATTACH_LOOP_LOOP_DEVICE_H_
#define UZRAM_ATTACH_LOOP_LOOP_DEVICE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "uzram/result.h"

namespace uzram::attach {

struct Backing {
  dev_t device = 0;  // of the mount
  ino_t inode = 0;
  std::string path;  // asked where the file no longer answers for itself
};

std::string loop_path(int number);

// Binds a free device to `file`; `path` is its name for those who list loop devices.
Result<int> bind_loop(const base::Fd& file, const std::string& path, unsigned block_size,
                      bool read_only);

// Holds the device exclusively, so that nobody can mount it or swap on it; none where it is not (or
// no longer) bound to `backing`.
Result<base::Fd> claim_loop(int number, const Backing& backing);

// Makes the device as large as the kernel takes its backing file to be by now; its size then, none
// where it is not (or no longer) bound to `backing`.
Result<std::optional<std::uint64_t>> resize_loop(int number, const Backing& backing);

enum class Unbind {
  now_or_refuse,  // busy, and nothing has changed, where it is mounted or else held exclusively
  when_closed,    // by whoever has it open
};
// Marks the device to clear itself when the last one closes it, which is at once where nobody else
// has it open. False where it is not (or no longer) bound to `backing`.
Result<bool> unbind_loop(int number, const Backing& backing, Unbind how);
// Takes that mark back. False where it was too late.
Result<bool> keep_loop(int number, const Backing& backing);

// Numbers of the devices that are bound to `backing`.
std::vector<int> loops_bound_to(const Backing& backing);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_LOOP_DEVICE_H_
