#include "cli/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

namespace uzram::cli {

Result<base::Fd> take_signals() {
  for (const int ignored : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(ignored, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int awaited : {SIGTERM, SIGINT}) {
    ::sigaddset(&set, awaited);
    // A shell starts background jobs with SIGINT ignored, and an ignored signal never reaches a
    // descriptor.
    std::signal(awaited, SIG_DFL);
  }
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return fail_errno(errno, "signals");
  base::Fd signals(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals) return fail_errno(errno, "signals");
  return signals;
}

}  // namespace uzram::cli
