#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {
namespace {

int write_words(const PassArguments& arguments, std::string attribute, std::string otherwise) {
  std::string value;
  for (const std::string& word : arguments.words) value += (value.empty() ? "" : " ") + word;
  return run_set({arguments.name, std::move(attribute), value.empty() ? otherwise : value});
}

}  // namespace

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

int run_idle(const PassArguments& arguments) {
  return write_words(arguments, "idle", "all");
}

int run_recompress(const PassArguments& arguments) {
  return write_words(arguments, "recompress", "");
}

int run_writeback(const PassArguments& arguments) {
  return write_words(arguments, "writeback", "");
}

int run_compact(const PassArguments& arguments) {
  return write_words(arguments, "compact", "1");
}

}  // namespace uzram::cli
