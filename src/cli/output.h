// What the command line says to people and scripts.
//
// What: results go to standard output, one line per error to standard error. Units: none.
// Ownership: none. Threading: the main thread.
// Errors: `print` fails where standard output does (a closed pipe, a full disk).
#ifndef UZRAM_CLI_OUTPUT_H_
#define UZRAM_CLI_OUTPUT_H_

#include <string>
#include <string_view>

#include "uzram/result.h"

namespace uzram::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Writes `text` to standard output, all of it, unbuffered.
Result<void> print(std::string_view text);
// `print` as the last act of a subcommand: its exit status.
int finish(std::string_view text);

// "uzram: what: why" and a newline on standard error; the exit status that says the same
// (invalid_argument: wrong usage, else failed).
int report(const Error& error);
// The same for a line made by `error_line`, maybe in another process.
int report_line(std::string_view line, int exit_code);
// The same text as one line: bytes that would break it are written as \xNN.
std::string error_line(const Error& error);
int exit_status(Status status);

}  // namespace uzram::cli

#endif  // UZRAM_CLI_OUTPUT_H_
