#include "cli/device_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>

#include "base/fd.h"
#include "cli/device_host.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "control/methods.h"
#include "control/server.h"

namespace uzram::cli {
namespace {

// How long a control call that is under way may hold up the end of the process.
constexpr std::chrono::milliseconds kControlPatience{2000};

// The host may write through this very device to get memory free: memory that this process asks for
// must not wait for such a write. Comes before the first thread, as threads inherit it. Without the
// right to (CAP_SYS_RESOURCE) the device works as other user-space ones do.
void become_io_flusher() {
#ifdef PR_SET_IO_FLUSHER
  static_cast<void>(::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
#endif
}

void wait_for_stop(int signals, int stop_event) {
  pollfd polled[] = {{signals, POLLIN, 0}, {stop_event, POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
}

Result<base::Fd> make_stop_event() {
  base::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno(errno, "stop event");
  return event;
}

// The control socket comes last: by it those who list devices tell that this one is usable.
Result<std::unique_ptr<control::Server>> bring_up(DeviceHost& host,
                                                  const control::DeviceFiles& files) {
  if (auto up = host.bring_up(); !up) return tl::unexpected(up.error());
  return control::Server::start(
      files.socket, [&host](std::string_view line) { return control::answer(host, line); });
}

// Everything between taking the name and giving it back.
Result<void> serve_named(const StartOptions& options, const control::DeviceFiles& files,
                         control::DeviceLock& lock, int signals, const Ready& ready) {
  auto stop_event = make_stop_event();
  if (!stop_event) return tl::unexpected(stop_event.error());
  // Destroyed from the bottom up, and last the server, whose clients take the end of their
  // connection for the end of the process; its threads have ended by then.
  std::unique_ptr<control::Server> server;
  DeviceHost host(options, files, std::move(*stop_event));
  Result<void> result;
  if (auto up = bring_up(host, files)) {
    server = std::move(*up);
    result = ready(host.lines());
  } else {
    result = tl::unexpected(up.error());
  }
  if (result) wait_for_stop(signals, host.stop_event());
  host.shut_down();
  const bool ended = !server || server->stop(kControlPatience);
  lock.remove_files(files);
  // A pass or reset of a very large device: its memory goes with the process.
  if (!ended) ::_exit(kExitDone);
  return result;
}

}  // namespace

Result<void> serve_device(const StartOptions& options, const control::RuntimeDir& dir,
                          const Ready& ready) {
  become_io_flusher();
  const auto signals = take_signals();
  if (!signals) return tl::unexpected(signals.error());
  auto lock = control::DeviceLock::take(dir, options.name);
  if (!lock) return tl::unexpected(lock.error());
  const control::DeviceFiles files = dir.files(options.name);
  // What a killed process of this name has left would be in the way of a new one. Its record and
  // socket go at once: with the lock held they would be taken for ours.
  const auto last = control::read_record(files.record);
  const bool fresh = !dir.has_leftovers(options.name);
  lock->remove_leftovers(files);
  if (auto cleaned = clean_up_attachments(files, last); !cleaned) {
    // A lock without a holder keeps the device listed, as dead, until it can be cleared.
    if (fresh) lock->remove_files(files);
    return cleaned;
  }
  auto served = serve_named(options, files, *lock, signals->get(), ready);
  lock->remove_files(files);
  return served;
}

}  // namespace uzram::cli
