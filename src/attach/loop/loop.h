// The loop attachment: a file exported through FUSE, and a loop device on it.
//
// What: `start_loop` mounts a directory that holds one file, the device's bytes, and puts
//   /dev/loopN on it, so that kernels with neither ublk nor NBD still get a block device; or stops
//   at the file, which needs no root. `clean_up_loop` removes what a killed process left of it.
//   Resized, the loop device follows, under what is mounted on it, too.
// Units: bytes. Ownership: the device must outlive the attachment, which owns the mount, its
//   directory and the loop device, and removes all three.
// Threading: as attachment.h says; `clients` and the names may also be asked by other threads.
// Errors: not_found or permission where the kernel or the user lacks FUSE or loop devices,
//   invalid_argument for a size that is no multiple of the block size, exists for a mount directory
//   that is there already, busy where the loop device is in use.
//
// A process must not wait for its own mount in a way that no signal ends: killed at that moment it
// could never go. So no descriptor of the loop device or the file is kept open here (the last one
// to close a block device writes back what others left dirty); the claim of a held device has a
// table of descriptors of its own (loop_claim.h); and the loop device goes by the kernel's own
// rule: marked to clear itself, it does so when its last user closes it.
#ifndef UZRAM_ATTACH_LOOP_LOOP_H_
#define UZRAM_ATTACH_LOOP_LOOP_H_

#include <memory>
#include <string>

#include "attach/attachment.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::attach {

struct LoopOptions {
  std::string mount_dir;      // made by us, in a directory that is there; must not exist
  unsigned block_size = 512;  // 512 or 4096: the loop device's logical block
  bool read_only = false;     // a read-only device is attached read-only in any case
  bool file_only = false;     // no loop device; any device size
};

// Where the FUSE file stands under the mount directory.
inline constexpr const char* kLoopFileName = "disk";

Result<std::unique_ptr<Attachment>> start_loop(Device& device, const LoopOptions& options);

// Detaches the loop devices whose backing file is in `mount_dir`, unmounts it and removes it. One
// that is still mounted or open gives errors from now on and goes when its user lets go of it.
// Nothing to do is success. Refused: a directory that is still served (busy), one that holds
// something else (exists).
Result<void> clean_up_loop(const std::string& mount_dir);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_LOOP_H_
