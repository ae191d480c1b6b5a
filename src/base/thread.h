// What a thread of ours begins with.
//
// What: leaves signals to the main thread. Units, ownership: none. Threading: for the calling
//   thread. Errors: none.
#ifndef UZRAM_BASE_THREAD_H_
#define UZRAM_BASE_THREAD_H_

#include <pthread.h>
#include <signal.h>

namespace uzram::base {

inline void leave_signals_to_main() noexcept {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace uzram::base

#endif  // UZRAM_BASE_THREAD_H_
