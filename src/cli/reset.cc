#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {
namespace {

// Device managers open a block device for some milliseconds whenever they like: a reset that meets
// one tries again, for so short a time that a device in real use is still refused at once.
constexpr int kAttempts = 20;
constexpr std::chrono::milliseconds kPause{10};

Result<nlohmann::json> reset(const ResetArguments& arguments) {
  for (int attempt = 1;; ++attempt) {
    auto done = call_device(arguments.name, "device.reset", {{"force", arguments.force}});
    if (done || done.error().status != Status::busy || attempt == kAttempts) return done;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int run_reset(const ResetArguments& arguments) {
  const auto done = reset(arguments);
  return done ? kExitDone : report(done.error());
}

}  // namespace uzram::cli
