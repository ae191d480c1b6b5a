#include <nlohmann/json.hpp>

#include "cli/attachments.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {
namespace {

Result<std::string> attach(const AttachArguments& arguments) {
  // Checked here too: a relative path is relative to where we are, not to the device's process.
  const auto spec = check_attachment(split_attachment(arguments.what));
  if (!spec) return tl::unexpected(spec.error());
  const auto reply = call_device(arguments.name, "device.attach",
                                 {{"kind", spec->kind}, {"argument", spec->argument}});
  if (!reply) return tl::unexpected(reply.error());
  try {
    return reply->at("kind").get<std::string>() + "\t" + reply->at("where").get<std::string>() +
           "\n";
  } catch (const nlohmann::json::exception& error) {
    return fail(Status::io_error, std::string("device.attach: ") + error.what());
  }
}

}  // namespace

int run_attach(const AttachArguments& arguments) {
  const auto text = attach(arguments);
  return text ? finish(*text) : report(text.error());
}

int run_detach(const DetachArguments& arguments) {
  const auto done = call_device(arguments.name, "device.detach",
                                {{"kind", arguments.kind}, {"force", arguments.force}});
  return done ? kExitDone : report(done.error());
}

}  // namespace uzram::cli
