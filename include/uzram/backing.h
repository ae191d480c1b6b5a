// The backing store of a device, for those who open one.
//
// What: where write-back moves pages that memory should not hold: a regular file, a block device or
//   an NBD export. What it held before is lost as soon as a page is moved there.
// Units: none. Ownership: shared; nobody else can use the file or block device while it is open.
//   A device uses its store alone. Threading: any thread.
// Errors: as `open_backing_store` says.
#ifndef UZRAM_BACKING_H_
#define UZRAM_BACKING_H_

#include <memory>
#include <string>

#include "uzram/result.h"

namespace uzram {

namespace backing {
class Store;
}

// `where`: a path, or nbd://HOST[:PORT]/[EXPORT] or nbd+unix:///[EXPORT]?socket=PATH. Fails with
//   invalid_argument  neither file nor block device; not one block of 4 KiB; a URI of another kind
//   not_found, permission, read_only
//   busy              somebody else uses it: another device, a mounted file system
//   io_error          the server does not answer, or not in time
Result<std::shared_ptr<backing::Store>> open_backing_store(const std::string& where);

}  // namespace uzram

#endif  // UZRAM_BACKING_H_
