// A way in to a device: NBD, loop.
//
// What: an attachment is made running by its own factory and serves one device until it is stopped.
// Units: none. Ownership: holds a reference to the device, which must outlive it.
// Threading: an attachment runs its own threads; what changes it (start, stop, resized, hold,
// release, the destructor) is called by one thread at a time, what only asks (kind, where, clients)
// by any at any time. Errors: the factory fails with one line; a running attachment reports a
// peer's errors to that peer.
#ifndef UZRAM_ATTACH_ATTACHMENT_H_
#define UZRAM_ATTACH_ATTACHMENT_H_

#include <string>

#include "uzram/result.h"

namespace uzram::attach {

class Attachment {
 public:
  virtual ~Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  virtual std::string kind() const = 0;   // "nbd", "loop"
  virtual std::string where() const = 0;  // URI or path that a client opens
  // Clients that hold it open right now: connections, or opens of the block device beside our own.
  virtual unsigned clients() const = 0;
  // The device has another size: tells those who don't ask by themselves. On failure some may have
  // been told.
  virtual Result<void> resized() { return {}; }
  // Stops accepting, completes what was received, closes within `drain` bounds and leaves nothing
  // behind. Returns the first thing that could not be undone (say, a loop device that is mounted:
  // busy, and the attachment goes on serving unless `force`). Safe to call again.
  virtual Result<void> stop(bool force) = 0;
  // Keeps clients out, so that the device's data can be dropped at once: busy, naming a client,
  // while any has it open. From success until `release` newcomers wait, or are refused where they
  // want a block device for themselves (mount, swapon). `stop` ends it, too.
  virtual Result<void> hold() = 0;
  virtual void release() noexcept = 0;

 protected:
  Attachment() = default;
};

}  // namespace uzram::attach

#endif  // UZRAM_ATTACH_ATTACHMENT_H_
