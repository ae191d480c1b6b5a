#include "cli/device_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>

#include "base/fd.h"
#include "base/log.h"
#include "base/mutex.h"
#include "cli/output.h"
#include "control/attributes.h"
#include "control/host.h"
#include "control/methods.h"
#include "control/server.h"

namespace uzram::cli {
namespace {

// How long a control call that is under way may hold up the end of the process.
constexpr std::chrono::milliseconds kControlPatience{2000};

// SIGTERM and SIGINT as a descriptor; signals that are none of our business are ignored. Comes
// before the first thread, as threads inherit the mask. A shell starts background jobs with SIGINT
// ignored, and an ignored signal never reaches a descriptor: hence the default.
Result<base::Fd> take_signals() {
  for (const int ignored : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(ignored, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int awaited : {SIGTERM, SIGINT}) {
    ::sigaddset(&set, awaited);
    std::signal(awaited, SIG_DFL);
  }
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return fail_errno(errno, "signals");
  base::Fd signals(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals) return fail_errno(errno, "signals");
  return signals;
}

// The host may write through this very device to get memory free: memory that this process asks for
// must not wait for such a write. Comes before the first thread, as threads inherit it. Without the
// right to (CAP_SYS_RESOURCE) the device works as other user-space ones do.
void become_io_flusher() {
#ifdef PR_SET_IO_FLUSHER
  static_cast<void>(::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
#endif
}

class DeviceProcess final : public control::Host {
 public:
  DeviceProcess(const StartOptions& options, control::DeviceFiles files,
                std::unique_ptr<Device> device, base::Fd stop_event)
      : options_(options),
        files_(std::move(files)),
        device_(std::move(device)),
        stop_event_(std::move(stop_event)) {}

  Device& device() override { return *device_; }
  control::DeviceRecord record() const override {
    const base::MutexLock lock(mutex_);
    return make_record();
  }
  unsigned clients() const override {
    const base::MutexLock lock(mutex_);
    return count_clients();
  }
  Result<void> reset(bool force) override;
  Result<void> detach(std::string_view kind, bool force) override;
  Result<void> stop(bool force) override;
  Result<control::AttachmentRecord> attach(std::string_view kind,
                                           std::string_view argument) override;

  // Starts what was asked for, then the control socket. The record comes first, so that a process
  // that is killed on the way is seen to have been here.
  Result<void> bring_up();
  // One line per attachment.
  std::string lines() const;
  void wait_for_stop(int signals) const;
  // Ends attachments and server. False when a control call is still under way: the process must
  // then end without its destructors.
  bool shut_down();

 private:
  struct Attached {
    AttachmentSpec spec;
    std::unique_ptr<attach::Attachment> way_in;
  };
  using Attachments = std::vector<Attached>;

  Attachments::iterator find(std::string_view kind) UZRAM_REQUIRES(mutex_) {
    return std::find_if(attachments_.begin(), attachments_.end(),
                        [kind](const Attached& attached) { return attached.spec.kind == kind; });
  }
  static control::AttachmentRecord record_of(const Attached& attached) {
    return {attached.spec.kind, attached.way_in->where(), attached.spec.argument};
  }
  control::DeviceRecord make_record() const UZRAM_REQUIRES(mutex_);
  unsigned count_clients() const UZRAM_REQUIRES(mutex_);
  Result<void> publish() UZRAM_REQUIRES(mutex_) {
    return control::write_record(files_.record, make_record());
  }
  Result<void> start(const AttachmentSpec& spec) UZRAM_REQUIRES(mutex_);
  Result<void> start_best() UZRAM_REQUIRES(mutex_);
  Result<void> stop_attachments(bool force) UZRAM_REQUIRES(mutex_);
  Result<void> hold_attachments() UZRAM_REQUIRES(mutex_);

  const StartOptions options_;
  const control::DeviceFiles files_;
  // Destroyed from the bottom up: attachments before the device that they serve, and last the
  // server, whose clients take the end of their connection for the end of the process.
  std::unique_ptr<control::Server> server_;
  const std::unique_ptr<Device> device_;
  const base::Fd stop_event_;  // an eventfd; readable once device.stop was accepted
  mutable base::Mutex mutex_;
  Attachments attachments_ UZRAM_GUARDED_BY(mutex_);
  bool stopping_ UZRAM_GUARDED_BY(mutex_) = false;
};

Result<void> DeviceProcess::bring_up() {
  {
    const base::MutexLock lock(mutex_);
    if (auto published = publish(); !published) return published;
    for (const AttachmentSpec& spec : options_.attachments) {
      if (auto started = start(spec); !started) return started;
    }
    if (options_.attach_auto) {
      if (auto started = start_best(); !started) return started;
    }
  }
  auto server = control::Server::start(
      files_.socket, [this](std::string_view line) { return control::answer(*this, line); });
  if (!server) return tl::unexpected(server.error());
  server_ = std::move(*server);
  const base::MutexLock lock(mutex_);
  return publish();
}

Result<void> DeviceProcess::start(const AttachmentSpec& spec) {
  const auto same = find(spec.kind);
  if (same != attachments_.end()) {
    return fail(Status::exists, spec.kind + ": attached already, at " + same->way_in->where());
  }
  auto started = start_attachment({*device_, options_.name, files_, options_.block_size}, spec);
  if (!started) return tl::unexpected(started.error());
  attachments_.push_back({spec, std::move(*started)});
  return {};
}

// A block device where there can be one, NBD elsewhere; nothing more where that is there already.
Result<void> DeviceProcess::start_best() {
  if (can_have_loop_device()) {
    if (find("loop") != attachments_.end() || start({"loop", ""})) return {};
  }
  if (find("nbd") != attachments_.end()) return {};
  return start({"nbd", "auto"});
}

control::DeviceRecord DeviceProcess::make_record() const {
  control::DeviceRecord record;
  record.name = options_.name;
  record.pid = ::getpid();
  record.type = control::type_name(options_.device.type);
  record.algo = control::algorithm_of(options_.device);
  record.size_bytes = device_->size_bytes();
  record.block_size_bytes = options_.block_size;
  record.read_only = options_.device.read_only;
  for (const Attached& attached : attachments_) record.attachments.push_back(record_of(attached));
  return record;
}

unsigned DeviceProcess::count_clients() const {
  unsigned count = 0;
  for (const Attached& attached : attachments_) count += attached.way_in->clients();
  return count;
}

std::string DeviceProcess::lines() const {
  std::string text;
  for (const control::AttachmentRecord& attachment : record().attachments) {
    text += attachment.kind + "\t" + attachment.where + "\n";
  }
  return text;
}

Result<void> DeviceProcess::reset(bool force) {
  const base::MutexLock lock(mutex_);
  if (force) {
    device_->reset();
    return {};
  }
  if (auto held = hold_attachments(); !held) return held;
  device_->reset();
  for (const Attached& attached : attachments_) attached.way_in->release();
  return {};
}

// All of them, or none.
Result<void> DeviceProcess::hold_attachments() {
  for (auto at = attachments_.begin(); at != attachments_.end(); ++at) {
    auto held = at->way_in->hold();
    if (held) continue;
    while (at != attachments_.begin()) (--at)->way_in->release();
    return fail(held.error().status, "'" + options_.name + "': in use: " + held.error().message);
  }
  return {};
}

Result<control::AttachmentRecord> DeviceProcess::attach(std::string_view kind,
                                                        std::string_view argument) {
  const auto spec = check_attachment({std::string(kind), std::string(argument)});
  if (!spec) return tl::unexpected(spec.error());
  const base::MutexLock lock(mutex_);
  if (stopping_) return fail(Status::shutting_down, "'" + options_.name + "': is being stopped");
  if (auto started = start(*spec); !started) return tl::unexpected(started.error());
  if (auto published = publish(); !published) {
    static_cast<void>(attachments_.back().way_in->stop(true));
    attachments_.pop_back();
    return tl::unexpected(published.error());
  }
  return record_of(attachments_.back());
}

Result<void> DeviceProcess::detach(std::string_view kind, bool force) {
  const base::MutexLock lock(mutex_);
  const auto found = find(kind);
  if (found == attachments_.end()) {
    return fail(Status::not_found, "'" + std::string(kind) + "': not attached");
  }
  if (auto stopped = found->way_in->stop(false); !stopped) {
    if (!force) return stopped;
    static_cast<void>(found->way_in->stop(true));
  }
  attachments_.erase(found);
  return publish();
}

Result<void> DeviceProcess::stop(bool force) {
  const base::MutexLock lock(mutex_);
  if (auto stopped = stop_attachments(force); !stopped) {
    static_cast<void>(publish());
    return stopped;
  }
  stopping_ = true;
  ::eventfd_write(stop_event_.get(), 1);
  return {};
}

// Those that can be refused come first, so that a refusal leaves the others attached: a loop device
// may be mounted, while NBD's clients are simply disconnected. `force` follows the gentle way,
// which lets requests finish; what it returns is about what users still hold, the attachment is
// gone.
Result<void> DeviceProcess::stop_attachments(bool force) {
  std::stable_partition(attachments_.begin(), attachments_.end(),
                        [](const Attached& attached) { return attached.spec.kind != "nbd"; });
  while (!attachments_.empty()) {
    auto stopped = attachments_.front().way_in->stop(false);
    if (!stopped && !force) return stopped;
    if (!stopped) {
      base::log(base::LogLevel::warning, "forced: " + stopped.error().message);
      static_cast<void>(attachments_.front().way_in->stop(true));
    }
    attachments_.erase(attachments_.begin());
  }
  return {};
}

void DeviceProcess::wait_for_stop(int signals) const {
  pollfd polled[] = {{signals, POLLIN, 0}, {stop_event_.get(), POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
}

bool DeviceProcess::shut_down() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
    static_cast<void>(stop_attachments(true));
  }
  return !server_ || server_->stop(kControlPatience);
}

Result<base::Fd> make_stop_event() {
  base::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail_errno(errno, "stop event");
  return event;
}

// Everything between taking the name and giving it back.
Result<void> serve_named(const StartOptions& options, const control::DeviceFiles& files,
                         control::DeviceLock& lock, int signals, const Ready& ready) {
  auto device = create_device(options.device);
  if (!device) return tl::unexpected(device.error());
  auto stop_event = make_stop_event();
  if (!stop_event) return tl::unexpected(stop_event.error());
  DeviceProcess process(options, files, std::move(*device), std::move(*stop_event));
  auto result = process.bring_up();
  if (result) result = ready(process.lines());
  if (result) process.wait_for_stop(signals);
  const bool ended = process.shut_down();
  lock.remove_files(files);
  // A compaction or reset of a very large device: its memory goes with the process.
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
