#include "cli/device_host.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "backing/store.h"
#include "base/log.h"
#include "cli/store_patience.h"
#include "control/attributes.h"
#include "control/backing_setting.h"

namespace uzram::cli {
namespace {

// Device managers open a block device for some milliseconds whenever they like: a reset that meets
// one tries again, for so short a time that a device in real use is still refused at once.
constexpr int kHoldAttempts = 20;
constexpr std::chrono::milliseconds kHoldPause{10};

}  // namespace

DeviceHost::DeviceHost(const StartOptions& start, control::DeviceFiles files, base::Fd stop_event,
                       std::chrono::milliseconds store_patience)
    : start_(start),
      files_(std::move(files)),
      stop_event_(std::move(stop_event)),
      store_patience_(store_patience),
      options_(start.device) {}

Result<void> DeviceHost::bring_up() {
  const base::MutexLock act(acts_);
  if (auto published = publish(); !published) return published;
  if (auto opened = open_store(); !opened) return opened;
  if (start_.device.size_bytes == 0) return {};
  return make_device(start_.device.size_bytes, start_.attach_auto);
}

// By this process, which the lock belongs to from then on.
Result<void> DeviceHost::open_store() {
  if (start_.backing.empty()) return {};
  auto store = control::open_backing(start_.backing);
  if (!store) return fail(store.error().status, "--backing " + store.error().message);
  {
    const base::MutexLock lock(mutex_);
    options_.backing = std::move(*store);
  }
  return publish();
}

std::string DeviceHost::lines() const {
  std::string text;
  for (const Attached& attached : attachments()) {
    text += attached.spec.kind + "\t" + attached.way_in->where() + "\n";
  }
  return text;
}

// Nothing needs the store once the attachments have gone: what still waits for it then, a pass or
// discards, would only hold up the end.
void DeviceHost::shut_down() {
  const StorePatience bound(store(), store_patience_);
  const base::MutexLock act(acts_);
  stopping_ = true;
  static_cast<void>(stop_all(true));
  give_up_store();
}

std::shared_ptr<Device> DeviceHost::device() const {
  const base::MutexLock lock(mutex_);
  return device_;
}

DeviceOptions DeviceHost::options() const {
  const base::MutexLock lock(mutex_);
  return options_;
}

std::shared_ptr<backing::Store> DeviceHost::store() const {
  return options().backing;
}

void DeviceHost::give_up_store() const {
  if (const auto held = store()) held->shut_down();
}

DeviceHost::Attachments DeviceHost::attachments() const {
  const base::MutexLock lock(mutex_);
  return attachments_;
}

control::DeviceRecord DeviceHost::record() const {
  control::DeviceRecord record;
  Attachments shown;
  {
    const base::MutexLock lock(mutex_);
    record.algo = control::algorithm_of(options_);
    record.size_bytes = device_ ? device_->size_bytes() : 0;
    if (options_.backing) {
      record.backing = options_.backing->where();
      record.backing_size_bytes = options_.backing->block_count() * backing::kBlockBytes;
    }
    shown = attachments_;
  }
  record.name = start_.name;
  record.pid = ::getpid();
  record.type = control::type_name(start_.device.type);
  record.block_size_bytes = start_.block_size;
  record.read_only = start_.device.read_only;
  for (const Attached& attached : shown) record.attachments.push_back(record_of(attached));
  return record;
}

unsigned DeviceHost::clients() const {
  unsigned count = 0;
  for (const Attached& attached : attachments()) count += attached.way_in->clients();
  return count;
}

Result<void> DeviceHost::configure(const Change& change) {
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return go_on;
  if (device()) return fail_here(Status::busy, "is fixed while the device has a size");
  DeviceOptions changed = options();
  if (auto done = change(changed); !done) return done;
  {
    const base::MutexLock lock(mutex_);
    std::swap(options_, changed);
  }
  auto published = publish();
  if (!published) {
    const base::MutexLock lock(mutex_);
    std::swap(options_, changed);
  }
  return published;
}

Result<void> DeviceHost::limit_write_back(const WriteBackLimitsChange& change) {
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return go_on;
  if (const auto held = device()) {
    const Status set = held->change_write_back_limits(change);
    return set == Status::ok ? Result<void>() : fail_here(set, describe(set));
  }
  const base::MutexLock lock(mutex_);
  change.apply(options_.write_back);
  return {};
}

Result<void> DeviceHost::init(std::uint64_t size_bytes) {
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return go_on;
  if (device()) return fail_here(Status::busy, "is fixed while the device has a size");
  const bool best = start_.attach_auto || start_.attachments.empty();
  return make_device(size_bytes, best);
}

Result<void> DeviceHost::make_device(std::uint64_t size_bytes, bool best) {
  DeviceOptions wanted = options();
  wanted.size_bytes = size_bytes;
  auto made = create_device(wanted);
  if (!made) return tl::unexpected(made.error());
  const std::shared_ptr<Device> device = std::move(*made);
  auto started = start_all(device, start_.attachments, best);
  if (!started) return tl::unexpected(started.error());
  show(device, std::move(*started));
  auto published = publish();
  if (!published) {
    static_cast<void>(stop_all(true));
    show(nullptr, {});
  }
  return published;
}

// The record is written whatever becomes of it: when it is too late to go back, because the new
// part is in use, the size of now is what others must see.
Result<void> DeviceHost::resize(std::uint64_t size_bytes) {
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return go_on;
  const auto device = running();
  if (!device) return tl::unexpected(device.error());
  const std::uint64_t before = (*device)->size_bytes();
  if (auto resized = (*device)->resize(size_bytes); !resized) return resized;
  const auto told = tell_size();
  if (!told && (*device)->resize(before)) static_cast<void>(tell_size());
  auto published = publish();
  return told ? published : told;
}

Result<void> DeviceHost::tell_size() const {
  Result<void> told;
  for (const Attached& attached : attachments()) {
    if (auto one = attached.way_in->resized(); !one && told) told = std::move(one);
  }
  return told;
}

void DeviceHost::show(std::shared_ptr<Device> device, Attachments attachments) {
  const base::MutexLock lock(mutex_);
  device_.swap(device);
  attachments_.swap(attachments);
}

Result<void> DeviceHost::drop() {
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return go_on;
  const Attachments held = attachments();
  if (auto holding = hold_all(held); !holding) return holding;
  if (auto stopped = stop_all(false); !stopped) {
    release_all(attachments());
    static_cast<void>(publish());
    return stopped;
  }
  give_up_store();
  const std::shared_ptr<Device> old = device();
  show(nullptr, {});
  DeviceOptions forgotten = defaults();  // to close a backing store may take a moment
  {
    const base::MutexLock lock(mutex_);
    std::swap(options_, forgotten);
  }
  // A pass that still holds it finds nothing left to do, and its memory is free at once.
  if (old.use_count() > 1) old->reset();
  return publish();
}

// What `start` was told that no attribute can change stays.
DeviceOptions DeviceHost::defaults() const {
  DeviceOptions options;
  options.type = start_.device.type;
  options.read_only = start_.device.read_only;
  return options;
}

Result<void> DeviceHost::run_pass(const Pass& pass) {
  const auto held = device();
  if (!held) return fail_here(Status::invalid_argument, "has no size yet");
  if (!pass_.try_lock()) {
    return fail_here(Status::would_block, "a pass over its pages is under way");
  }
  auto done = pass(*held);
  pass_.unlock();
  return done;
}

Result<void> DeviceHost::reset(bool force) {
  const base::MutexLock act(acts_);
  const auto device = running();
  if (!device) return tl::unexpected(device.error());
  const Attachments held = force ? Attachments() : attachments();
  if (auto holding = hold_all(held); !holding) return holding;
  (*device)->reset();
  release_all(held);
  return {};
}

Result<control::AttachmentRecord> DeviceHost::attach(std::string_view kind,
                                                     std::string_view argument) {
  const auto spec = check_attachment({std::string(kind), std::string(argument)});
  if (!spec) return tl::unexpected(spec.error());
  const base::MutexLock act(acts_);
  if (auto go_on = check_not_stopping(); !go_on) return tl::unexpected(go_on.error());
  const auto device = running();
  if (!device) return tl::unexpected(device.error());
  const Attachments before = attachments();
  Attachments all = before;
  if (auto started = start_one(*device, *spec, all); !started) {
    return tl::unexpected(started.error());
  }
  const Attached added = all.back();
  show(*device, std::move(all));
  if (auto published = publish(); !published) {
    static_cast<void>(added.way_in->stop(true));
    show(*device, before);
    return tl::unexpected(published.error());
  }
  return record_of(added);
}

Result<void> DeviceHost::detach(std::string_view kind, bool force) {
  const base::MutexLock act(acts_);
  const Attachments all = attachments();
  const auto found = find(all, kind);
  if (found == all.end()) {
    return fail(Status::not_found, "'" + std::string(kind) + "': not attached");
  }
  if (auto stopped = found->way_in->stop(false); !stopped) {
    if (!force) return stopped;
    static_cast<void>(found->way_in->stop(true));
  }
  forget(*found);
  return publish();
}

// An act that is under way may be what waits for the store.
Result<void> DeviceHost::stop(bool force) {
  if (force) give_up_store();
  const base::MutexLock act(acts_);
  if (auto stopped = stop_all(force); !stopped) {
    static_cast<void>(publish());
    return stopped;
  }
  stopping_ = true;
  ::eventfd_write(stop_event_.get(), 1);
  return {};
}

DeviceHost::Attachments::const_iterator DeviceHost::find(const Attachments& attachments,
                                                         std::string_view kind) {
  return std::find_if(attachments.begin(), attachments.end(),
                      [kind](const Attached& attached) { return attached.spec.kind == kind; });
}

control::AttachmentRecord DeviceHost::record_of(const Attached& attached) {
  return {attached.spec.kind, attached.way_in->where(), attached.spec.argument};
}

tl::unexpected<Error> DeviceHost::fail_here(Status status, std::string_view why) const {
  return fail(status, "'" + start_.name + "': " + std::string(why));
}

Result<void> DeviceHost::check_not_stopping() const {
  if (stopping_) return fail_here(Status::shutting_down, "is being stopped");
  return {};
}

Result<std::shared_ptr<Device>> DeviceHost::running() const {
  if (auto held = device()) return held;
  return fail_here(Status::no_device, "has no size yet, set disksize first");
}

Result<void> DeviceHost::start_one(const std::shared_ptr<Device>& device,
                                   const AttachmentSpec& spec, Attachments& started) const {
  const auto same = find(started, spec.kind);
  if (same != started.end()) {
    return fail(Status::exists, spec.kind + ": attached already, at " + same->way_in->where());
  }
  auto way_in = start_attachment({*device, start_.name, files_, start_.block_size}, spec);
  if (!way_in) return tl::unexpected(way_in.error());
  started.push_back({spec, device, std::move(*way_in)});
  return {};
}

// With `best`, a block device too where there can be one, NBD elsewhere; nothing more where that is
// there already.
Result<DeviceHost::Attachments> DeviceHost::start_all(const std::shared_ptr<Device>& device,
                                                      const std::vector<AttachmentSpec>& specs,
                                                      bool best) const {
  Attachments started;
  for (const AttachmentSpec& spec : specs) {
    if (auto one = start_one(device, spec, started); !one) return tl::unexpected(one.error());
  }
  if (!best) return started;
  if (can_have_loop_device()) {
    if (find(started, "loop") != started.end() || start_one(device, {"loop", ""}, started)) {
      return started;
    }
  }
  if (find(started, "nbd") != started.end()) return started;
  if (auto one = start_one(device, {"nbd", "auto"}, started); !one) {
    return tl::unexpected(one.error());
  }
  return started;
}

Result<void> DeviceHost::hold_all(const Attachments& attachments) const {
  for (int attempt = 1;; ++attempt) {
    auto held = try_hold_all(attachments);
    if (held || held.error().status != Status::busy || attempt == kHoldAttempts) return held;
    std::this_thread::sleep_for(kHoldPause);
  }
}

// All of them, or none.
Result<void> DeviceHost::try_hold_all(const Attachments& attachments) const {
  for (auto at = attachments.begin(); at != attachments.end(); ++at) {
    auto held = at->way_in->hold();
    if (held) continue;
    while (at != attachments.begin()) (--at)->way_in->release();
    return fail_here(held.error().status, "in use: " + held.error().message);
  }
  return {};
}

void DeviceHost::release_all(const Attachments& attachments) {
  for (const Attached& attached : attachments) attached.way_in->release();
}

// Those that can be refused come first, so that a refusal leaves the others attached: a loop device
// may be mounted, while NBD's clients are simply disconnected. `force` follows the gentle way,
// which lets requests finish; what it returns is about what users still hold, the attachment is
// gone. The store is given up only where the attachment can't refuse and go on.
Result<void> DeviceHost::stop_all(bool force) {
  Attachments all = attachments();
  std::stable_partition(all.begin(), all.end(),
                        [](const Attached& attached) { return attached.spec.kind != "nbd"; });
  for (const Attached& attached : all) {
    const bool ends = attached.spec.kind == "nbd";
    const StorePatience bound(ends ? store() : nullptr, store_patience_);
    auto stopped = attached.way_in->stop(false);
    if (!stopped && !force) return stopped;
    if (!stopped) {
      base::log(base::LogLevel::warning, "forced: " + stopped.error().message);
      static_cast<void>(attached.way_in->stop(true));
    }
    forget(attached);
  }
  return {};
}

void DeviceHost::forget(const Attached& attached) {
  const base::MutexLock lock(mutex_);
  std::erase_if(attachments_,
                [&](const Attached& other) { return other.way_in == attached.way_in; });
}

Result<void> DeviceHost::publish() const {
  return control::write_record(files_.record, record());
}

}  // namespace uzram::cli
