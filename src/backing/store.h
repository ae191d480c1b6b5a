// The backing store: where write-back moves pages that memory should not hold.
//
// What: an array of blocks outside memory: a file, a block device or an NBD export. It keeps what
//   was written for as long as it is open, and knows nothing of what the blocks mean.
// Units: blocks of kBlockBytes; offsets and lengths are bytes and multiples of it.
// Ownership: a Store owns its descriptor or connection, and locks others out where the system can;
//   the bytes of an Io are the caller's, who leaves them alone until `run` returns.
// Threading: any call from any thread, many at once; destroyed by one, when none is inside.
// Errors: `open_store` tells what it refuses and why. An Io carries its own status:
// invalid_argument
//   or out_of_range where it is malformed, no_space, else io_error. After a failed write the blocks
//   it names hold the old bytes, the new ones, or some of each.
#ifndef UZRAM_BACKING_STORE_H_
#define UZRAM_BACKING_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "uzram/result.h"

namespace uzram::backing {

inline constexpr std::uint64_t kBlockBytes = 4096;

struct Io {
  enum class Kind : std::uint8_t { read, write };

  Kind kind = Kind::read;
  std::uint64_t offset = 0;    // bytes
  std::span<std::byte> data;   // at least a block, its address aligned to kBlockBytes
  Status status = Status::ok;  // out
  // Out, of a write that failed: the store may carry it out later all the same (a server whose
  // connection was lost has it still). Nothing else may be written there.
  bool uncertain = false;
};

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // As it was given to `open_store`.
  virtual const std::string& where() const noexcept = 0;
  // Whole blocks; fixed while the store is open.
  virtual std::uint64_t block_count() const noexcept = 0;

  // Runs each, at most `in_flight_max` at the same time (0 counts as 1), in any order, and returns
  // when all have their status. One that fails does not end the others. Waits as long as the store
  // takes: never call it with a lock held that a reader of memory may want.
  virtual void run(std::span<Io> batch, unsigned in_flight_max) noexcept = 0;

  // Advice: these blocks hold nothing any more and read as anything. Their space is given back
  // where the store can. Done, or never to be done, when it returns true, so that a later write is
  // safe; false: as an uncertain write. Ignores what lies past the end.
  virtual bool discard(std::uint64_t first_block, std::uint64_t count) noexcept = 0;

  // For who must end and can't wait: whatever comes from now on fails with io_error, and so does
  // what is under way where the store can end it. A system call can't be ended. For good; does not
  // wait.
  virtual void shut_down() noexcept = 0;
};

// ok when an Io has the shape told above and lies within the store; every Store asks this first.
Status check_io(const Io& io, std::uint64_t block_count) noexcept;

// The part of a discard that lies within the store, as bytes.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // 0: none
};
ByteRange clip_discard(std::uint64_t first_block, std::uint64_t count,
                       std::uint64_t block_count) noexcept;

// `where` is the path of a regular file or a block device (symbolic links are followed), or the URI
// of an NBD export: nbd://HOST[:PORT]/[EXPORT] or nbd+unix:///[EXPORT]?socket=PATH. What it held
// before is lost as soon as something is written. Fails with
//   invalid_argument  neither file nor block device; not one whole block; a URI of another kind
//   not_found, permission, read_only
//   busy              somebody else uses it: another store, a mounted file system
//   io_error          the server does not answer, or not in time
Result<std::unique_ptr<Store>> open_store(const std::string& where);

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_STORE_H_
