#include "attach/loop/loop.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "attach/loop/block_users.h"
#include "attach/loop/fuse_file.h"
#include "attach/loop/loop_claim.h"
#include "attach/loop/loop_device.h"
#include "attach/loop/mount_table.h"

namespace uzram::attach {
namespace {

using Clock = std::chrono::steady_clock;

// Device managers open and probe block devices at any time, for some milliseconds.
constexpr std::chrono::seconds kProberGone{3};
constexpr std::chrono::seconds kProberGoneForced{1};
// A look at the file that began before the resize may be answered between ours and its use.
constexpr int kResizeTries = 3;

class LoopAttachment final : public Attachment {
 public:
  LoopAttachment(std::unique_ptr<FuseFile> file, Backing backing, int number)
      : file_(std::move(file)), backing_(std::move(backing)), number_(number) {}
  ~LoopAttachment() override { static_cast<void>(stop(true)); }

  std::string kind() const override { return "loop"; }
  std::string where() const override { return has_loop() ? loop_path(number_) : file_->path(); }
  unsigned clients() const override;
  Result<void> resized() override;
  Result<void> stop(bool force) override;
  Result<void> hold() override;
  void release() noexcept override;

 private:
  bool has_loop() const noexcept { return number_ >= 0; }
  Result<void> detach(bool force);
  Result<void> claim();
  // Names a user where one can be found.
  Error in_use(const char* otherwise) const;

  const std::unique_ptr<FuseFile> file_;
  const Backing backing_;
  const int number_;  // -1: the file alone
  bool stopped_ = false;
  std::unique_ptr<LoopClaim> held_;
};

unsigned LoopAttachment::clients() const {
  const unsigned opens = file_->disk().opens();
  if (!has_loop() || opens == 0) return opens;
  return opens - 1 + users_of(where()).count;
}

Error LoopAttachment::in_use(const char* otherwise) const {
  const BlockUsers users = users_of(where());
  return {Status::busy, where() + ": " + (users.count > 0 ? users.first : otherwise)};
}

Result<void> LoopAttachment::resized() {
  const std::uint64_t wanted = file_->disk().device.size_bytes();
  for (int i = 0; i < kResizeTries; ++i) {
    if (Result<void> shown = file_->refresh_size(); !shown || !has_loop()) return shown;
    const auto size = resize_loop(number_, backing_);
    if (!size) return tl::unexpected<Error>(size.error());
    if (!*size || *size == wanted) return {};  // detached by somebody else, or done
  }
  return fail(Status::io_error, where() + ": kept its size");
}

Result<void> LoopAttachment::detach(bool force) {
  ExportedDisk& disk = file_->disk();
  const auto deadline = Clock::now() + (force ? kProberGoneForced : kProberGone);
  if (!has_loop()) {
    if (disk.wait_for_opens(0, deadline)) return {};
    return fail(Status::busy, where() + ": open");
  }
  if (!force && disk.opens() > 1) {
    return fail(Status::busy, file_->path() + ": open beside its loop device");
  }
  const Result<bool> unbound =
      unbind_loop(number_, backing_, force ? Unbind::when_closed : Unbind::now_or_refuse);
  if (!unbound) {
    if (unbound.error().status != Status::busy) return tl::unexpected<Error>(unbound.error());
    return tl::unexpected<Error>(in_use("held exclusively"));
  }
  // The kernel closes our file when the device is free of it.
  if (disk.wait_for_opens(0, deadline)) return {};
  Error busy = in_use("held open");
  if (!force) {
    const Result<bool> kept = keep_loop(number_, backing_);
    if (!kept) return tl::unexpected<Error>(kept.error());
    if (!*kept && disk.wait_for_opens(0, Clock::now() + kProberGone)) return {};
  }
  return tl::unexpected<Error>(std::move(busy));
}

Result<void> LoopAttachment::stop(bool force) {
  if (stopped_) return {};
  release();  // our own claim would be in the way
  Result<void> detached = detach(force);
  if (!detached && !force) return detached;
  stopped_ = true;
  Result<void> unmounted = file_->unmount();
  return detached ? unmounted : detached;
}

Result<void> LoopAttachment::hold() {
  if (!file_->disk().hold(has_loop() ? 1 : 0)) {
    return fail(Status::busy,
                file_->path() + ": open" + (has_loop() ? " beside its loop device" : ""));
  }
  if (!has_loop()) return {};
  Result<void> claimed = claim();
  if (!claimed) release();
  return claimed;
}

Result<void> LoopAttachment::claim() {
  Result<std::unique_ptr<LoopClaim>> claimed = LoopClaim::take(number_, backing_);
  if (!claimed) {
    if (claimed.error().status != Status::busy) return tl::unexpected<Error>(claimed.error());
    return tl::unexpected<Error>(in_use("held exclusively"));
  }
  if (!*claimed) return {};  // detached by somebody else: nobody can come that way
  if (users_of(where()).count > 0) return tl::unexpected<Error>(in_use("held open"));
  held_ = std::move(*claimed);
  return {};
}

void LoopAttachment::release() noexcept {
  held_.reset();
  file_->disk().release();
}

Result<void> check_size(std::uint64_t size, unsigned block_size) {
  if (block_size != 512 && block_size != 4096) {
    return fail(Status::invalid_argument,
                "block size " + std::to_string(block_size) + ": a loop device takes 512 or 4096");
  }
  if (size % block_size != 0) {
    return fail(Status::invalid_argument,
                "device size " + std::to_string(size) + ": a loop device with blocks of " +
                    std::to_string(block_size) + " bytes needs a multiple of them");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Attachment>> start_loop(Device& device, const LoopOptions& options) {
  const bool read_only = options.read_only || device.options().read_only;
  if (!options.file_only) {
    if (Result<void> fits = check_size(device.size_bytes(), options.block_size); !fits) {
      return tl::unexpected<Error>(std::move(fits.error()));
    }
  }
  Result<std::unique_ptr<FuseFile>> file = FuseFile::mount(device, options.mount_dir, read_only);
  if (!file) return tl::unexpected<Error>(std::move(file.error()));
  Backing backing{0, kDiskInode, (*file)->path()};
  int number = -1;
  if (!options.file_only) {
    const base::Fd disk(::open(backing.path.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC));
    if (!disk) return fail_errno(errno, backing.path);
    struct stat attributes;
    if (::fstat(disk.get(), &attributes) != 0) return fail_errno(errno, backing.path);
    backing.device = attributes.st_dev;
    const Result<int> bound = bind_loop(disk, backing.path, options.block_size, read_only);
    if (!bound) return tl::unexpected<Error>(bound.error());
    number = *bound;
  }
  return std::make_unique<LoopAttachment>(std::move(*file), std::move(backing), number);
}

Result<void> clean_up_loop(const std::string& mount_dir) {
  const Result<std::string> directory = resolve_parent(mount_dir);
  if (!directory) {
    if (directory.error().status == Status::not_found) return {};
    return tl::unexpected<Error>(directory.error());
  }
  const std::optional<Mount> mount = find_mount(*directory);
  if (mount && !is_ours(*mount)) {
    return fail(Status::exists, *directory + ": a mount of type " + mount->type + ", not ours");
  }
  if (mount) {
    // Of a connection whose process is gone the kernel says so; any other answer is a living one's.
    struct statx unused;
    if (::statx(AT_FDCWD, directory->c_str(), AT_STATX_FORCE_SYNC, STATX_MODE, &unused) == 0 ||
        (errno != ENOTCONN && errno != ECONNABORTED)) {
      return fail(Status::busy, *directory + ": a running process serves it");
    }
  }
  const Backing backing{mount ? mount->device : 0, kDiskInode, *directory + "/" + kLoopFileName};
  for (const int number : loops_bound_to(backing)) {
    const Result<bool> unbound = unbind_loop(number, backing, Unbind::when_closed);
    if (!unbound) return tl::unexpected<Error>(unbound.error());
  }
  if (Result<void> unmounted = unmount_lazily(*directory); !unmounted) return unmounted;
  if (::rmdir(directory->c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, *directory + ": remove");
  }
  return {};
}

}  // namespace uzram::attach
