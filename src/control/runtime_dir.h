// The runtime directory: where the process of each device leaves what others need to find it.
//
// What: per device NAME.lock (held locked by its process for as long as that lives), NAME.sock
//   (control), NAME.json (its record), NAME.nbd (NBD socket of `auto`) and NAME.loop (where the
//   loop attachment mounts its file). A device is alive exactly while its lock is held, so no
//   process id is ever trusted. Locks are those of the open file description (F_OFD_SETLK): they
//   end with the process however it ends, and who only asks (F_OFD_GETLK) takes nothing and
//   disturbs no one.
// Units: none. Ownership: a DeviceLock owns its file. Threading: values; the file system decides.
// Errors: permission for a directory that others could write to; exists for a name that is taken.
#ifndef UZRAM_CONTROL_RUNTIME_DIR_H_
#define UZRAM_CONTROL_RUNTIME_DIR_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "uzram/result.h"

namespace uzram::control {

// 1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit; invalid_argument otherwise.
Result<void> check_name(std::string_view name);

struct DeviceFiles {
  std::string lock, socket, record, nbd_socket, loop_dir;
};

enum class LockState { absent, free, held };

class RuntimeDir {
 public:
  // $UZRAM_RUNTIME_DIR, else /run/uzram for root, else $XDG_RUNTIME_DIR/uzram. Made (0700) where
  // missing. Refused: a symbolic link, another user's directory, one that group or others write to.
  static Result<RuntimeDir> create();
  // The same, but a missing directory is not_found.
  static Result<RuntimeDir> open();

  const std::string& path() const noexcept { return path_; }
  DeviceFiles files(std::string_view name) const;
  // Names of all devices that left a file here, sorted.
  Result<std::vector<std::string>> names() const;
  LockState lock_state(std::string_view name) const;
  // Whether any file of the device is here; whether any but its lock is.
  bool has_files(std::string_view name) const;
  bool has_leftovers(std::string_view name) const;
  bool has_socket(std::string_view name) const;

 private:
  explicit RuntimeDir(std::string path) : path_(std::move(path)) {}
  static Result<RuntimeDir> find(bool create);

  std::string path_;  // absolute
};

// The name of one device, taken for as long as this lives.
class DeviceLock {
 public:
  static Result<DeviceLock> take(const RuntimeDir& dir, std::string_view name);
  // Removes what a dead device of this name is known by, but for the lock.
  void remove_leftovers(const DeviceFiles& files);
  // Removes the lock, too, and frees the name. Only once: the files may be another's from then on.
  void remove_files(const DeviceFiles& files);

 private:
  explicit DeviceLock(base::Fd file) : file_(std::move(file)) {}
  base::Fd file_;
};

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_RUNTIME_DIR_H_
