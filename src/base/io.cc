#include "base/io.h"

#include <unistd.h>

#include <cerrno>

namespace uzram::base {

int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

tl::expected<std::size_t, int> read_all(int fd, std::span<std::byte> out) noexcept {
  std::size_t size = 0;
  while (size < out.size()) {
    const ssize_t got = ::read(fd, out.data() + size, out.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

}  // namespace uzram::base
