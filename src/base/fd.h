// An owned file descriptor.
//
// What: closes it when it goes. Units: none. Ownership: unique. Threading: none of its own.
// Errors: close errors are dropped; who needs them closes by hand after release().
#ifndef UZRAM_BASE_FD_H_
#define UZRAM_BASE_FD_H_

#include <unistd.h>

#include <utility>

namespace uzram::base {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace uzram::base

#endif  // UZRAM_BASE_FD_H_
