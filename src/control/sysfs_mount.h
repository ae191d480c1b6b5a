// The sysfs-shaped tree as a mounted file system, by FUSE.
//
// What: made mounted and serving, until `stop` or until somebody unmounts it.
// Units: none. Ownership: owns mount and session; the tree outlives it.
// Threading: one thread makes, stops and destroys it; files are served by threads of its own, as
//   many as wait for devices at once, up to kThreadsMax. Signals are the caller's.
// Errors: the tree's, as errnos; nothing is cached, so that each read asks the device anew.
#ifndef UZRAM_CONTROL_SYSFS_MOUNT_H_
#define UZRAM_CONTROL_SYSFS_MOUNT_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"
#include "control/sysfs_tree.h"
#include "uzram/result.h"

struct fuse;

namespace uzram::control {

class SysfsMount {
 public:
  static constexpr unsigned kThreadsMax = 64;

  static constexpr std::chrono::milliseconds kEndPatience{2000};

  // On a directory that is there.
  static Result<std::unique_ptr<SysfsMount>> mount(SysfsTree& tree, const std::string& directory);
  ~SysfsMount();
  SysfsMount(const SysfsMount&) = delete;
  SysfsMount& operator=(const SysfsMount&) = delete;

  // Returns when the tree has been unmounted, or `end` is readable.
  void wait(int end) const;
  // Unmounts it; comes before the destructor. False when a file is still being served after
  // kEndPatience: the process must then end without the destructor.
  bool stop();

 private:
  struct Destroy {
    void operator()(fuse* session) const noexcept;
  };
  using Session = std::unique_ptr<fuse, Destroy>;

  SysfsMount(Session session, std::string directory, base::Fd ended);
  void run();

  const std::string directory_;
  Session session_;
  const base::Fd ended_;  // an eventfd; readable once the session has ended
  std::thread thread_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_SYSFS_MOUNT_H_
