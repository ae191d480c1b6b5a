#include "uzram/result.h"

#include <cerrno>
#include <system_error>

namespace uzram {
namespace {

struct Row {
  Status status;
  int error;
  std::string_view text;
};

// First match wins in both directions.
constexpr Row kRows[] = {
    {Status::ok, 0, "done"},
    {Status::invalid_argument, EINVAL, "invalid argument"},
    {Status::out_of_range, ERANGE, "out of range"},
    {Status::no_space, ENOSPC, "no space left"},
    {Status::no_memory, ENOMEM, "out of memory"},
    {Status::io_error, EIO, "input/output error"},
    {Status::not_supported, EOPNOTSUPP, "not supported"},
    {Status::read_only, EROFS, "read-only"},
    {Status::would_block, EAGAIN, "would block"},
    {Status::busy, EBUSY, "in use"},
    {Status::exists, EEXIST, "exists already"},
    {Status::not_found, ENOENT, "not found"},
    {Status::no_device, ENODEV, "no device"},
    {Status::permission, EPERM, "permission denied"},
    {Status::shutting_down, ESHUTDOWN, "shutting down"},
    {Status::permission, EACCES, ""},
    {Status::busy, EADDRINUSE, ""},
    {Status::not_found, ENXIO, ""},
};

}  // namespace

int errno_of(Status status) noexcept {
  for (const Row& row : kRows) {
    if (row.status == status) return row.error;
  }
  return EIO;
}

Status status_of_errno(int error) noexcept {
  for (const Row& row : kRows) {
    if (row.error == error) return row.status;
  }
  return Status::io_error;
}

std::string_view describe(Status status) noexcept {
  for (const Row& row : kRows) {
    if (row.status == status) return row.text;
  }
  return "unknown error";
}

tl::unexpected<Error> fail_errno(int error, std::string_view what) {
  return fail(status_of_errno(error),
              std::string(what) + ": " + std::generic_category().message(error));
}

}  // namespace uzram
