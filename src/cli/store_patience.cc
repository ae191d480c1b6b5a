#include "cli/store_patience.h"

#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace uzram::cli {

StorePatience::StorePatience(std::shared_ptr<backing::Store> store,
                             std::chrono::milliseconds patience) noexcept
    : store_(std::move(store)) {
  if (!store_) return;
  try {
    thread_ = std::thread([this, patience] { wait(patience); });
  } catch (const std::system_error&) {
  }
}

StorePatience::~StorePatience() {
  {
    const base::MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StorePatience::wait(std::chrono::milliseconds patience) noexcept {
  base::leave_signals_to_main();
  const auto end = std::chrono::steady_clock::now() + patience;
  {
    const base::MutexLock lock(mutex_);
    while (!over_ && changed_.wait_until(mutex_, end)) {
    }
    if (over_) return;
  }
  base::log(base::LogLevel::warning, store_->where() + ": does not answer, is given up");
  store_->shut_down();
}

}  // namespace uzram::cli
