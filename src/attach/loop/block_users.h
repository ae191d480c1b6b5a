// Who uses a block device.
//
// What: the kernel tells nobody how often a block device is open, and to try for an exclusive claim
//   would make a mount fail that comes at that moment. So this reads: descriptors of all processes,
//   mounts of all mount namespaces, swap areas, drivers stacked on it. What it can't see (another
//   name for the device node) it misses: good for people and counters, not for a decision.
// Units: none. Ownership: values. Threading: pure, but for the system's tables. Errors: what can't
//   be read counts as unused.
#ifndef UZRAM_ATTACH_LOOP_BLOCK_USERS_H_
#define UZRAM_ATTACH_LOOP_BLOCK_USERS_H_

#include <string>

namespace uzram::attach {

struct BlockUsers {
  unsigned count = 0;  // descriptors of other processes; one more for the kernel's own use
  std::string first;   // of them, for people: "mounted on /mnt", "open in fio (process 123)"
};

// `device` as "/dev/loop0"; its partitions count too.
BlockUsers users_of(const std::string& device);

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_LOOP_BLOCK_USERS_H_
