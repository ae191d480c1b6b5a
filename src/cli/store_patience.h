// A bound on how long the end of something may wait for a backing store that does not answer.
//
// What: shuts the store down once its time has passed, unless it goes first.
// Units: milliseconds. Ownership: shares the store; owns a thread.
// Threading: made and destroyed by one thread. Errors: where there can be no thread, there is no
//   bound.
#ifndef UZRAM_CLI_STORE_PATIENCE_H_
#define UZRAM_CLI_STORE_PATIENCE_H_

#include <chrono>
#include <memory>
#include <thread>

#include "backing/store.h"
#include "base/mutex.h"

namespace uzram::cli {

class StorePatience {
 public:
  // Without a store it does nothing.
  StorePatience(std::shared_ptr<backing::Store> store, std::chrono::milliseconds patience) noexcept;
  ~StorePatience();
  StorePatience(const StorePatience&) = delete;
  StorePatience& operator=(const StorePatience&) = delete;

 private:
  void wait(std::chrono::milliseconds patience) noexcept;

  const std::shared_ptr<backing::Store> store_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool over_ UZRAM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace uzram::cli

#endif  // UZRAM_CLI_STORE_PATIENCE_H_
