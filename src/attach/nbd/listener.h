// A listening socket that never takes a live server's place.
//
// What: binds a Unix path or a TCP port. A socket file at which nobody listens any more is
// replaced;
//   a live one, and anything that is not a socket, is left as it was. Socket files are made with
//   mode 0600.
// Units: none. Ownership: owns the socket and, for Unix, the file at the path. Threading: one
// thread. Errors: one line naming the address and the rule.
#ifndef UZRAM_ATTACH_NBD_LISTENER_H_
#define UZRAM_ATTACH_NBD_LISTENER_H_

#include <sys/types.h>

#include "attach/nbd/address.h"
#include "base/fd.h"
#include "uzram/result.h"

namespace uzram::attach::nbd {

class Listener {
 public:
  // Non-blocking, listening when this returns.
  static Result<Listener> open(const NbdAddress& address);

  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener() { close(); }

  int fd() const noexcept { return socket_.get(); }
  // As opened, with the port that the system chose.
  const NbdAddress& address() const noexcept { return address_; }
  // Takes the file away, if it is still ours, and then stops listening. Safe to call again.
  void close() noexcept;

 private:
  explicit Listener(NbdAddress address) : address_(std::move(address)) {}
  Result<void> open_unix();
  Result<void> open_tcp();

  NbdAddress address_;
  base::Fd socket_;
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
};

}  // namespace uzram::attach::nbd

#endif  // UZRAM_ATTACH_NBD_LISTENER_H_
