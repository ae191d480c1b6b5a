#include "attach/loop/loop_claim.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/thread.h"

// The thread sanitizer knows descriptors by their numbers alone and takes those of two tables for
// one: in this thread it must not look.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define UZRAM_OWN_NUMBERS
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
#endif
#endif

namespace uzram::attach {
namespace {

class OwnNumbers {
 public:
#ifdef UZRAM_OWN_NUMBERS
  OwnNumbers() {
    __tsan_ignore_thread_begin();
  }
  ~OwnNumbers() {
    __tsan_ignore_thread_end();
  }
#else
  OwnNumbers() {}
  ~OwnNumbers() {}
#endif
  OwnNumbers(const OwnNumbers&) = delete;
  OwnNumbers& operator=(const OwnNumbers&) = delete;
};

// Leaves the process's descriptors to its other threads.
Result<void> take_own_table() {
  if (::unshare(CLONE_FILES) != 0 || ::close_range(STDERR_FILENO + 1, ~0U, 0) != 0) {
    return fail_errno(errno, "descriptors of a thread's own");
  }
  return {};
}

Result<base::Fd> claim_apart(int number, const Backing& backing) {
  if (auto own = take_own_table(); !own) return tl::unexpected<Error>(std::move(own.error()));
  return claim_loop(number, backing);
}

}  // namespace

Result<std::unique_ptr<LoopClaim>> LoopClaim::take(int number, const Backing& backing) {
  std::unique_ptr<LoopClaim> claim(new LoopClaim);
  try {
    claim->thread_ =
        std::thread([raw = claim.get(), number, backing] { raw->hold(number, backing); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), loop_path(number) + ": thread");
  }
  {
    const base::MutexLock lock(claim->mutex_);
    while (!claim->taken_) claim->changed_.wait(claim->mutex_);
    if (!*claim->taken_) return tl::unexpected<Error>(claim->taken_->error());
    if (**claim->taken_) return claim;
  }
  return std::unique_ptr<LoopClaim>();
}

LoopClaim::~LoopClaim() {
  {
    const base::MutexLock lock(mutex_);
    drop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LoopClaim::hold(int number, const Backing& backing) {
  base::leave_signals_to_main();
  const OwnNumbers own_numbers;
  const Result<base::Fd> device = claim_apart(number, backing);
  const base::MutexLock lock(mutex_);
  taken_ = device ? Result<bool>(static_cast<bool>(*device))
                  : Result<bool>(tl::unexpected<Error>(device.error()));
  changed_.notify_all();
  while (!drop_) changed_.wait(mutex_);
}

}  // namespace uzram::attach
