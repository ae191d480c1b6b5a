#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/attachments.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/remote.h"

namespace uzram::cli {
namespace {

// The end of a process that holds much memory takes the kernel some time.
constexpr std::chrono::milliseconds kEndPatience{30'000};

// Removes what a dead device has left; its lock, taken here, keeps a new one from starting
// meanwhile.
Result<void> clear_dead(const control::RuntimeDir& dir, const std::string& name) {
  auto lock = control::DeviceLock::take(dir, name);
  if (!lock && lock.error().status == Status::exists) {
    return fail(Status::busy, "'" + name + "': is just being started or cleared");
  }
  if (!lock) return tl::unexpected(lock.error());
  const control::DeviceFiles files = dir.files(name);
  if (auto cleaned = clean_up_attachments(files, control::read_record(files.record)); !cleaned)
    return cleaned;
  lock->remove_files(files);
  return {};
}

bool is_dead(const control::RuntimeDir& dir, const std::string& name) {
  return dir.has_files(name) && dir.lock_state(name) != control::LockState::held;
}

}  // namespace

Result<void> stop_device(const std::string& name, bool force) {
  const auto dir = find_device_dir(name);
  if (!dir) return tl::unexpected(dir.error());
  if (is_dead(*dir, name)) return clear_dead(*dir, name);
  auto client = control::Client::connect(*dir, name);
  if (!client) return tl::unexpected(client.error());
  const auto stopped = client->call("device.stop", {{"force", force}});
  if (!stopped) return tl::unexpected(stopped.error());
  if (!client->wait_for_end(kEndPatience)) {
    return fail(Status::busy, "'" + name + "': stopped, but its process has not ended");
  }
  return {};
}

int run_stop(const StopArguments& arguments) {
  const auto stopped = stop_device(arguments.name, arguments.force);
  return stopped ? kExitDone : report(stopped.error());
}

}  // namespace uzram::cli
