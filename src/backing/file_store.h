// A backing store in a regular file or on a block device.
//
// What: opened past the page cache where the file system can, because pages are written back to
//   free memory, and a cache would keep them in it. Locked against a second user for its life.
// Units, ownership, threading, errors: as backing/store.h says. Batches go by io_uring, and where
// the
//   system refuses that, one transfer after the other.
#ifndef UZRAM_BACKING_FILE_STORE_H_
#define UZRAM_BACKING_FILE_STORE_H_

#include <memory>
#include <string>

#include "backing/ring.h"
#include "backing/store.h"

namespace uzram::backing {

// What a test puts in the system's place.
struct FileSystemCalls {
  RingSet::Create create_ring = &Ring::create;
  bool direct = true;  // false: as if the file system refused O_DIRECT
};

Result<std::unique_ptr<Store>> open_file_store(const std::string& path,
                                               const FileSystemCalls& calls = {});

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_FILE_STORE_H_
