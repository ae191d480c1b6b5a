#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "control/methods.h"

namespace uzram::cli {
namespace {

int write_words(const PassArguments& arguments, std::string attribute, std::string otherwise) {
  std::string value;
  for (const std::string& word : arguments.words) value += (value.empty() ? "" : " ") + word;
  return run_set({arguments.name, std::move(attribute), value.empty() ? otherwise : value});
}

}  // namespace

// A connection for each part: who reads what is printed may take any time in between.
int run_get(const GetArguments& arguments) {
  nlohmann::json params = {{"name", arguments.attribute}};
  for (std::uint64_t from = 0;;) {
    const auto value = call_device(arguments.name, "device.get", params);
    if (!value) return report(value.error());
    const auto part = control::part_of_answer(*value);
    if (!part) return report(part.error());
    if (!part->next) return finish(part->text);
    if (*part->next <= from) return report({Status::io_error, "device.get: does not go on"});
    if (const auto printed = print(part->text); !printed) return report(printed.error());
    from = *part->next;
    params["from"] = from;
  }
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
