// Sleep on a 32-bit word in memory (futex(2)), private to the process.
//
// What: the two calls that back off a contended bit. Units: none. Ownership: none.
// Threading: any. Errors: none; a wait may end early, callers look again.
#ifndef UZRAM_BASE_FUTEX_H_
#define UZRAM_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace uzram::base {

// Sleeps while the word holds `expected`.
inline void futex_wait(const void* word, std::uint32_t expected) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

inline void futex_wake(const void* word, int count) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace uzram::base

#endif  // UZRAM_BASE_FUTEX_H_
