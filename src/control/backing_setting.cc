#include "control/backing_setting.h"

#include <chrono>
#include <thread>

namespace uzram::control {
namespace {

// A device that a reset has dropped keeps its store open for as long as somebody who asks for
// attributes still holds it. Who meets a store in real use is told so a little later for it.
constexpr int kAttempts = 20;
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

Result<std::shared_ptr<backing::Store>> open_backing(const std::string& where) {
  for (int attempt = 1;; ++attempt) {
    auto store = open_backing_store(where);
    if (store || store.error().status != Status::busy || attempt == kAttempts) return store;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace uzram::control
