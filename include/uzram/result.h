// Errors of uzram.
//
// What: `Status` is the answer of the data path, one byte and no text; `Error` adds one line of
// text
//   for people and is what set-up and control calls return through `Result<T>`.
// Units: none. Ownership: values. Threading: values. Errors: no function here fails or throws.
#ifndef UZRAM_RESULT_H_
#define UZRAM_RESULT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace uzram {

enum class [[nodiscard]] Status : std::uint8_t{
    ok = 0,
    invalid_argument,  // malformed, unknown or overflowing input          EINVAL
    out_of_range,      // past the end of the device                       ERANGE
    no_space,          // the memory limit, or the image, is used up       ENOSPC
    no_memory,         // the system refused memory                        ENOMEM
    io_error,          // stored bytes can't be read back                  EIO
    not_supported,     // known, but not by this device or build           EOPNOTSUPP
    read_only,         // a write to a read-only device                    EROFS
    would_block,       // a no-wait request that would have had to wait    EAGAIN
    busy,              // in use                                           EBUSY
    exists,            // the name or path is taken                        EEXIST
    not_found,         // no such device, codec, attribute or path         ENOENT
    no_device,         // there, but without what it takes: size, backing  ENODEV
    permission,        // the system refused the right                     EPERM
    shutting_down,     // the device is being stopped                      ESHUTDOWN
};

// The errno that says the same; 0 for ok.
int errno_of(Status status) noexcept;
// The nearest Status of an errno; io_error where nothing is nearer.
Status status_of_errno(int error) noexcept;
// A short lower-case phrase, static storage.
std::string_view describe(Status status) noexcept;

// `message` is one line of the form "what: why", with neither a program name before it nor a full
// stop.
struct [[nodiscard]] Error {
  Status status = Status::io_error;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Status status, std::string message) {
  return tl::unexpected<Error>(Error{status, std::move(message)});
}
// "what: text of the errno", with the matching status.
tl::unexpected<Error> fail_errno(int error, std::string_view what);

}  // namespace uzram

#endif  // UZRAM_RESULT_H_
