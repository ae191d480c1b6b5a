// Our FUSE mounts, as the system sees them.
//
// What: finds and removes mounts of type "fuse.uzram" on one directory. Units: none.
// Ownership: none. Threading: pure, but for libfuse's and the kernel's own tables.
// Errors: not_found, permission, or the errno of the call that failed.
#ifndef UZRAM_ATTACH_LOOP_MOUNT_TABLE_H_
#define UZRAM_ATTACH_LOOP_MOUNT_TABLE_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "uzram/result.h"

namespace uzram::attach {

inline constexpr const char* kMountSubtype = "uzram";

struct Mount {
  dev_t device = 0;  // st_dev of what is mounted
  std::string point, type, source;
};

// A table in the form of /proc/PID/mountinfo, in its order: a later mount lies on top.
std::vector<Mount> read_mounts(const std::string& table_path);

// `path` with everything but its last name resolved: the last may be a mount that no longer
// answers.
Result<std::string> resolve_parent(const std::string& path);
// The topmost mount on `directory` (resolved) in this mount namespace.
std::optional<Mount> find_mount(const std::string& directory);
bool is_ours(const Mount& mount);
// Removes every mount of ours on `directory`, lazily: what is open there stays until it is closed.
// Without root by fusermount3.
Result<void> unmount_lazily(const std::string& directory);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_MOUNT_TABLE_H_
