#include "attach/loop/fuse_file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "attach/loop/loop.h"
#include "attach/loop/mount_table.h"
#include "attach/loop/session_loop.h"
#include "base/fuse_message.h"

namespace uzram::attach {
namespace {

// Two keep a loop device busy; more cores than that only help large writes with a slow codec.
constexpr unsigned kThreadsMin = 2;

Result<void> check_fuse() {
  const base::Fd probe(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (probe) return {};
  const int error = errno;
  if (error == ENOENT || error == ENODEV || error == ENXIO) {
    return fail(Status::not_found, "/dev/fuse: this kernel has no FUSE (module \"fuse\")");
  }
  return fail_errno(error, "/dev/fuse");
}

// Blocks signals for its scope, so that the threads started in it take none but their own faults.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

FuseFile::FuseFile(Device& device, bool read_only, std::string mount_dir)
    : disk_(device, read_only),
      mount_dir_(std::move(mount_dir)),
      path_(mount_dir_ + "/" + kLoopFileName),
      session_(nullptr, &fuse_session_destroy) {}

FuseFile::~FuseFile() {
  static_cast<void>(unmount());
}

Result<std::unique_ptr<FuseFile>> FuseFile::mount(Device& device, const std::string& mount_dir,
                                                  bool read_only) {
  Result<std::string> resolved = resolve_parent(mount_dir);
  if (!resolved) return tl::unexpected<Error>(std::move(resolved.error()));
  if (Result<void> fuse = check_fuse(); !fuse) {
    return tl::unexpected<Error>(std::move(fuse.error()));
  }
  std::unique_ptr<FuseFile> file(new FuseFile(device, read_only, std::move(*resolved)));
  if (Result<void> started = file->start(); !started) {
    return tl::unexpected<Error>(std::move(started.error()));
  }
  return file;
}

Result<void> FuseFile::start() {
  if (::mkdir(mount_dir_.c_str(), 0700) != 0) {
    if (errno == EEXIST) return fail(Status::exists, mount_dir_ + ": is there already");
    return fail_errno(errno, mount_dir_);
  }
  directory_made_ = true;
  base::keep_fuse_messages();
  std::string program = "uzram", flag = "-o";
  std::string mount_options = std::string("fsname=uzram,subtype=") + kMountSubtype +
                              ",default_permissions,noexec,noatime" +
                              (disk_.read_only ? ",ro" : "");
  std::array<char*, 4> words = {program.data(), flag.data(), mount_options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words.data());
  session_.reset(
      fuse_session_new(&arguments, &disk_operations(), sizeof(fuse_lowlevel_ops), &disk_));
  fuse_opt_free_args(&arguments);
  if (!session_) return fail(Status::no_memory, mount_dir_ + ": " + base::fuse_message());
  if (fuse_session_mount(session_.get(), mount_dir_.c_str()) != 0) {
    session_.reset();
    return fail(Status::permission, mount_dir_ + ": " + base::fuse_message());
  }
  return start_threads();
}

Result<void> FuseFile::start_threads() {
  // First, since threads without it could not be woken. By path only: asks nobody to serve it.
  root_.reset(::open(mount_dir_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root_) return fail_errno(errno, mount_dir_);
  try {
    const SignalsBlocked blocked;
    waker_ = std::thread([this] { wake_session(); });
    serve_ = std::thread([this] { serve(); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), mount_dir_ + ": thread");
  }
  return {};
}

void FuseFile::serve() {
  SessionLoop(session_.get(), disk_.device)
      .run(std::clamp(std::thread::hardware_concurrency(), kThreadsMin, ChangeOrder::kThreadsMax));
  // Whether it was asked to end or could not go on, as where no thread was to be had: as root this
  // aborts the connection, so that nobody waits for an answer. To close it would do the same, were
  // it not for children that inherited the descriptor.
  if (const std::optional<Mount> top = find_mount(mount_dir_); top && is_ours(*top)) {
    static_cast<void>(::umount2(mount_dir_.c_str(), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW));
  }
  disk_.all_closed();
}

// The session's threads sleep in the kernel and see that the session has ended only when a request
// comes: so one is made. If they have gone before it came, it ends with an error when the
// connection is closed; hence a thread of its own.
void FuseFile::wake_session() {
  {
    const base::MutexLock lock(mutex_);
    while (!end_) ending_.wait(mutex_);
  }
  struct statfs unused;
  static_cast<void>(::fstatfs(root_.get(), &unused));
}

Result<void> FuseFile::refresh_size() {
  struct statx unused;
  if (::statx(root_.get(), kLoopFileName, AT_STATX_FORCE_SYNC, STATX_SIZE, &unused) == 0) return {};
  return fail_errno(errno, path_);
}

Result<void> FuseFile::unmount() {
  if (session_) {
    fuse_session_exit(session_.get());
    {
      const base::MutexLock lock(mutex_);
      end_ = true;
      ending_.notify_all();
    }
    if (serve_.joinable()) serve_.join();
    fuse_session_unmount(session_.get());  // closes the connection
    if (waker_.joinable()) waker_.join();
    root_.reset();
    session_.reset();
  }
  if (!directory_made_) return {};
  // libfuse leaves the mount where the connection was aborted from outside.
  if (Result<void> done = unmount_lazily(mount_dir_); !done) return done;
  if (::rmdir(mount_dir_.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, mount_dir_ + ": remove");
  }
  directory_made_ = false;
  return {};
}

}  // namespace uzram::attach
