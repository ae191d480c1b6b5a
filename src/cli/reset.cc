#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {

int run_reset(const ResetArguments& arguments) {
  const auto done = call_device(arguments.name, "device.reset", {{"force", arguments.force}});
  return done ? kExitDone : report(done.error());
}

}  // namespace uzram::cli
