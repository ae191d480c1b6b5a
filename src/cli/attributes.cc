#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {

int run_get(const GetArguments& arguments) {
  const auto value = call_device(arguments.name, "device.get", {{"name", arguments.attribute}});
  if (!value) return report(value.error());
  if (!value->is_string()) return report({Status::io_error, "device.get: not a string"});
  return finish(value->get<std::string>() + "\n");
}

int run_set(const SetArguments& arguments) {
  const auto done = call_device(arguments.name, "device.set",
                                {{"name", arguments.attribute}, {"value", arguments.value}});
  return done ? kExitDone : report(done.error());
}

}  // namespace uzram::cli
