// The file system that shows a device as one file.
//
// What: what the kernel asks of it (libfuse's low-level operations), over an ExportedDisk.
// Units: bytes. Ownership: the session's user data is an ExportedDisk, which outlives the session.
// Threading: operations run on the session's threads, several at once.
// Errors: errno_of the device's status. ENOSYS is never the answer of an operation that exists:
//   the kernel would take it for "never ask again".
#ifndef UZRAM_ATTACH_LOOP_FUSE_OPS_H_
#define UZRAM_ATTACH_LOOP_FUSE_OPS_H_

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <chrono>

#include "base/mutex.h"
#include "uzram/device.h"

namespace uzram::attach {

inline constexpr fuse_ino_t kDiskInode = FUSE_ROOT_ID + 1;

class ExportedDisk {
 public:
  ExportedDisk(Device& shown, bool no_writes) : device(shown), read_only(no_writes) {}

  // Counts an open in; false while held.
  bool opened();
  void closed();
  // Keeps newcomers out until `release`. False, and nothing has changed, with more than `limit`
  // open.
  bool hold(unsigned limit);
  void release() noexcept;
  // The session has ended: no close will be told any more.
  void all_closed();
  // Open files of it, in any process and the kernel.
  unsigned opens() const;
  // False when `deadline` passed with more than `limit` open.
  bool wait_for_opens(unsigned limit, std::chrono::steady_clock::time_point deadline);

  Device& device;
  const bool read_only;

 private:
  mutable base::Mutex mutex_;
  base::CondVar fewer_;
  unsigned opens_ UZRAM_GUARDED_BY(mutex_) = 0;
  bool held_ UZRAM_GUARDED_BY(mutex_) = false;
};

const fuse_lowlevel_ops& disk_operations();

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_FUSE_OPS_H_
