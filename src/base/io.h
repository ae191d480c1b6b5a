// Whole reads and writes of a descriptor.
//
// What: go on after short transfers and interruptions. Units: bytes. Ownership: the descriptor is
//   the caller's. Threading: as the descriptor. Errors: an errno.
#ifndef UZRAM_BASE_IO_H_
#define UZRAM_BASE_IO_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

namespace uzram::base {

// Writes all of it; 0, or the errno of what failed.
int write_all(int fd, std::string_view text) noexcept;
// Reads until `out` is full or nothing more comes; how much.
tl::expected<std::size_t, int> read_all(int fd, std::span<std::byte> out) noexcept;

}  // namespace uzram::base

#endif  // UZRAM_BASE_IO_H_
