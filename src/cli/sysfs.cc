#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "cli/background.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "control/runtime_dir.h"
#include "control/sysfs_mount.h"

namespace uzram::cli {
namespace {

// `uzram start NAME` by this very program. A process with threads can't fork and go on; a new
// program needs its signals as they usually are.
Result<int> run_start_of(std::string name) {
  std::string program = "uzram", command = "start";
  std::array<char*, 4> words = {program.data(), command.data(), name.data(), nullptr};
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawnattr_init(&attributes); error != 0) {
    return fail_errno(error, "start");
  }
  sigset_t none, defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  for (const int ignored : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) ::sigaddset(&defaults, ignored);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, "/proc/self/exe", nullptr, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail_errno(error, "start");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno(errno, "start");
  }
  return status;
}

Result<void> start_new(const control::RuntimeDir& dir, const std::string& name) {
  const auto status = run_start_of(name);
  if (!status) return tl::unexpected(status.error());
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == kExitDone) return {};
  if (dir.lock_state(name) == control::LockState::held) {
    return fail(Status::exists, "'" + name + "': is running already");
  }
  return fail(Status::io_error, "'" + name + "': could not be started");
}

Result<void> serve_tree(const control::RuntimeDir& dir, const std::string& directory,
                        const Ready& ready) {
  const auto signals = take_signals();
  if (!signals) return tl::unexpected(signals.error());
  control::SysfsTree tree(
      dir, [&dir](const std::string& name) { return start_new(dir, name); },
      [](const std::string& name) { return stop_device(name, false); });
  auto mount = control::SysfsMount::mount(tree, directory);
  if (!mount) return tl::unexpected(mount.error());
  auto result = ready("");
  if (result) (*mount)->wait(signals->get());
  // Who still waits for a device gets no answer: the process is all that is left to end.
  if (!(*mount)->stop()) ::_exit(kExitDone);
  return result;
}

Result<std::string> absolute(const std::string& path) {
  char* const resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) {
    const int error = errno;
    if (error == ENOTCONN) {
      return fail(Status::busy, path + ": a mount whose process has gone, unmount it first");
    }
    return fail_errno(error, path);
  }
  std::string text = resolved;
  ::free(resolved);
  return text;
}

}  // namespace

int run_sysfs(const SysfsArguments& arguments) {
  const auto dir = control::RuntimeDir::create();
  if (!dir) return report(dir.error());
  const auto directory = absolute(arguments.directory);
  if (!directory) return report(directory.error());
  // What is started here belongs to the same runtime directory, wherever we go.
  ::setenv("UZRAM_RUNTIME_DIR", dir->path().c_str(), 1);
  const Service serve = [&](const Ready& ready) { return serve_tree(*dir, *directory, ready); };
  if (arguments.foreground) {
    const auto served = serve(print);
    return served ? kExitDone : report(served.error());
  }
  return report(run_in_background(*directory, serve, print));
}

}  // namespace uzram::cli
