// Signals of a process that serves.
//
// What: makes SIGTERM and SIGINT a descriptor that becomes readable; signals that are none of our
//   business are ignored. Units: none. Ownership: the caller's.
// Threading: called before the first thread is made, as threads inherit the mask.
// Errors: one line.
#ifndef UZRAM_CLI_SIGNALS_H_
#define UZRAM_CLI_SIGNALS_H_

#include "base/fd.h"
#include "uzram/result.h"

namespace uzram::cli {

Result<base::Fd> take_signals();

}  // namespace uzram::cli

#endif  // UZRAM_CLI_SIGNALS_H_
