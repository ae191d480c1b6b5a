#include "cli/output.h"

#include <unistd.h>

#include "base/io.h"

namespace uzram::cli {
Result<void> print(std::string_view text) {
  const int error = base::write_all(STDOUT_FILENO, text);
  if (error != 0) return fail_errno(error, "standard output");
  return {};
}

int finish(std::string_view text) {
  const auto printed = print(text);
  return printed ? kExitDone : report(printed.error());
}

int exit_status(Status status) {
  if (status == Status::ok) return kExitDone;
  return status == Status::invalid_argument ? kExitUsage : kExitFailed;
}

std::string error_line(const Error& error) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string line = "uzram: ";
  for (const char c : error.message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += "\\x";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
    } else {
      line += c;
    }
  }
  line += '\n';
  return line;
}

int report(const Error& error) {
  return report_line(error_line(error), exit_status(error.status));
}

int report_line(std::string_view line, int exit_code) {
  // Nobody is left to be told when standard error is gone; the exit status still tells.
  static_cast<void>(base::write_all(STDERR_FILENO, line));
  return exit_code;
}

}  // namespace uzram::cli
