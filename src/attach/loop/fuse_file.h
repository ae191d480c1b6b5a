// A mounted FUSE file system that shows a device as one file, and the threads that serve it.
//
// What: made mounted and serving; `unmount` or the destructor ends it. Units: none.
// Ownership: owns session, threads, mount and mount directory; the device outlives it.
// Threading: one thread makes, unmounts and destroys it; `disk()` may be asked by any.
// Errors: not_found or permission where FUSE can't be had, exists for the mount directory.
#ifndef UZRAM_ATTACH_LOOP_FUSE_FILE_H_
#define UZRAM_ATTACH_LOOP_FUSE_FILE_H_

#include <memory>
#include <string>
#include <thread>

#include "attach/loop/fuse_ops.h"
#include "base/fd.h"
#include "base/mutex.h"

namespace uzram::attach {

class FuseFile {
 public:
  static Result<std::unique_ptr<FuseFile>> mount(Device& device, const std::string& mount_dir,
                                                 bool read_only);
  ~FuseFile();
  FuseFile(const FuseFile&) = delete;
  FuseFile& operator=(const FuseFile&) = delete;

  ExportedDisk& disk() noexcept { return disk_; }
  const ExportedDisk& disk() const noexcept { return disk_; }
  const std::string& path() const noexcept { return path_; }

  // Makes the kernel ask for the file's size, which it keeps otherwise.
  Result<void> refresh_size();

  // Ends serving whoever still has it open (they get errors), unmounts and removes the directory.
  // Safe to call again.
  Result<void> unmount();

 private:
  FuseFile(Device& device, bool read_only, std::string mount_dir);
  Result<void> start();
  Result<void> start_threads();
  void serve();
  void wake_session();

  ExportedDisk disk_;
  const std::string mount_dir_;  // resolved
  const std::string path_;
  bool directory_made_ = false;
  std::unique_ptr<fuse_session, void (*)(fuse_session*)> session_;
  base::Fd root_;  // the mount's root, by path only: finds it wherever it was moved
  std::thread serve_;
  std::thread waker_;

  base::Mutex mutex_;
  base::CondVar ending_;
  bool end_ UZRAM_GUARDED_BY(mutex_) = false;
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_FUSE_FILE_H_
