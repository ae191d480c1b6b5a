#include "control/sysfs_mount.h"

#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/fuse_message.h"
#include "base/mutex.h"

namespace uzram::control {
namespace {

SysfsTree& tree() {
  return *static_cast<SysfsTree*>(fuse_get_context()->private_data);
}

int negative_errno(const Error& error) {
  return -errno_of(error.status);
}

// What FUSE calls must neither throw nor be left waiting.
template <typename Work>
int guarded(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EIO;
  }
}

mode_t mode_of(const SysfsTree::Node& node) {
  if (node.kind == SysfsTree::Kind::directory) return S_IFDIR | 0555;
  if (node.kind == SysfsTree::Kind::link) return S_IFLNK | 0777;
  return static_cast<mode_t>(S_IFREG | (node.readable() ? 0444 : 0) | (node.writable() ? 0200 : 0));
}

// An open file: the part of its text that was read last, for reads further on. The text is of the
// time when a read from the beginning, or of what stands before, began it anew.
struct OpenFile {
  explicit OpenFile(SysfsTree::Node of) : node(std::move(of)) {}

  const SysfsTree::Node node;
  base::Mutex mutex;
  bool begun UZRAM_GUARDED_BY(mutex) = false;
  Part part UZRAM_GUARDED_BY(mutex);
  std::uint64_t part_at UZRAM_GUARDED_BY(mutex) = 0;  // where in the file it stands
};

OpenFile& open_file(const fuse_file_info* info) {
  return *reinterpret_cast<OpenFile*>(info->fh);
}

int get_attributes(const char* path, struct stat* out, fuse_file_info*) {
  return guarded([&] {
    const auto node = tree().look_up(path);
    if (!node) return negative_errno(node.error());
    *out = {};
    out->st_mode = mode_of(*node);
    out->st_nlink = node->kind == SysfsTree::Kind::directory ? 2 : 1;
    out->st_uid = ::geteuid();
    out->st_gid = ::getegid();
    out->st_size = node->is_file() ? 4096 : 0;  // as sysfs says of every file
    return 0;
  });
}

int read_link(const char* path, char* out, std::size_t size) {
  return guarded([&] {
    const auto node = tree().look_up(path);
    if (!node) return negative_errno(node.error());
    const auto target = tree().link_target(*node);
    if (!target) return negative_errno(target.error());
    std::snprintf(out, size, "%s", target->c_str());
    return 0;
  });
}

int read_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                   fuse_readdir_flags) {
  return guarded([&] {
    const auto names = tree().list(path);
    if (!names) return negative_errno(names.error());
    for (const char* name : {".", ".."}) fill(buffer, name, nullptr, 0, fuse_fill_dir_flags{});
    for (const std::string& name : *names) {
      fill(buffer, name.c_str(), nullptr, 0, fuse_fill_dir_flags{});
    }
    return 0;
  });
}

// Nobody may read what can only be written, the superuser neither: so it is in sysfs.
int open_node(const char* path, fuse_file_info* info) {
  return guarded([&] {
    auto node = tree().look_up(path);
    if (!node) return negative_errno(node.error());
    if (!node->is_file()) return -EISDIR;
    const int access = info->flags & O_ACCMODE;
    if (access != O_WRONLY && !node->readable()) return -EACCES;
    if (access != O_RDONLY && !node->writable()) return -EACCES;
    info->direct_io = 1;
    info->fh = reinterpret_cast<std::uint64_t>(new OpenFile(std::move(*node)));
    return 0;
  });
}

int release(const char*, fuse_file_info* info) {
  delete &open_file(info);
  return 0;
}

int read_file(const char*, char* out, std::size_t size, off_t offset, fuse_file_info* info) {
  return guarded([&] {
    OpenFile& file = open_file(info);
    const base::MutexLock lock(file.mutex);
    const auto at = static_cast<std::uint64_t>(offset);
    if (!file.begun || at == 0 || at < file.part_at) {
      auto first = tree().read(file.node, 0);
      if (!first) return negative_errno(first.error());
      file.part = std::move(*first);
      file.part_at = 0;
      file.begun = true;
    }
    while (at - file.part_at >= file.part.text.size()) {
      if (!file.part.next) return 0;
      auto next = tree().read(file.node, *file.part.next);
      if (!next) return negative_errno(next.error());
      file.part_at += file.part.text.size();
      file.part = std::move(*next);
    }
    return static_cast<int>(
        file.part.text.copy(out, size, static_cast<std::size_t>(at - file.part_at)));
  });
}

// As in sysfs, each write is a store of its own, wherever the file stands.
int write_file(const char*, const char* text, std::size_t size, off_t, fuse_file_info* info) {
  return guarded([&] {
    const auto written = tree().write(open_file(info).node, {text, size});
    return written ? static_cast<int>(size) : negative_errno(written.error());
  });
}

// Shells truncate what they write to.
int truncate_file(const char* path, off_t, fuse_file_info*) {
  return guarded([&] {
    const auto node = tree().look_up(path);
    if (!node) return negative_errno(node.error());
    return node->writable() ? 0 : -EACCES;
  });
}

int create_file(const char*, mode_t, fuse_file_info*) {
  return -EACCES;
}

void* set_up(fuse_conn_info*, fuse_config* config) {
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  config->direct_io = 1;
  config->nullpath_ok = 0;
  return fuse_get_context()->private_data;
}

fuse_operations operations() {
  fuse_operations table = {};
  table.init = set_up;
  table.getattr = get_attributes;
  table.readlink = read_link;
  table.readdir = read_directory;
  table.open = open_node;
  table.create = create_file;
  table.read = read_file;
  table.write = write_file;
  table.truncate = truncate_file;
  table.release = release;
  return table;
}

Result<void> check_directory(const std::string& directory) {
  struct stat info = {};
  if (::stat(directory.c_str(), &info) != 0) {
    if (errno != ENOTCONN) return fail_errno(errno, directory);
    return fail(Status::busy, directory + ": a mount whose process has gone, unmount it first");
  }
  if (S_ISDIR(info.st_mode)) return {};
  return fail(Status::invalid_argument, directory + ": not a directory");
}

}  // namespace

void SysfsMount::Destroy::operator()(fuse* session) const noexcept {
  fuse_unmount(session);
  fuse_destroy(session);
}

Result<std::unique_ptr<SysfsMount>> SysfsMount::mount(SysfsTree& tree,
                                                      const std::string& directory) {
  if (auto checked = check_directory(directory); !checked) return tl::unexpected(checked.error());
  base::Fd ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended) return fail_errno(errno, directory);
  base::keep_fuse_messages();
  std::string program = "uzram", flag = "-o";
  std::string mount_options =
      "fsname=uzram,subtype=uzram-sysfs,default_permissions,noexec,nosuid,nodev";
  std::array<char*, 4> words = {program.data(), flag.data(), mount_options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words.data());
  const fuse_operations table = operations();
  fuse* const made = fuse_new(&arguments, &table, sizeof table, &tree);
  fuse_opt_free_args(&arguments);
  if (made == nullptr) return fail(Status::no_memory, directory + ": " + base::fuse_message());
  if (fuse_mount(made, directory.c_str()) != 0) {
    fuse_destroy(made);
    return fail(Status::permission, directory + ": " + base::fuse_message());
  }
  std::unique_ptr<SysfsMount> mount(new SysfsMount(Session(made), directory, std::move(ended)));
  try {
    mount->thread_ = std::thread([raw = mount.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), directory + ": thread");
  }
  return mount;
}

SysfsMount::SysfsMount(Session session, std::string directory, base::Fd ended)
    : directory_(std::move(directory)), session_(std::move(session)), ended_(std::move(ended)) {}

SysfsMount::~SysfsMount() {
  if (thread_.joinable()) thread_.join();
}

void SysfsMount::run() {
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(config, 0);
  fuse_loop_cfg_set_max_threads(config, kThreadsMax);
  fuse_loop_mt(session_.get(), config);
  fuse_loop_cfg_destroy(config);
  ::eventfd_write(ended_.get(), 1);
}

void SysfsMount::wait(int end) const {
  pollfd polled[] = {{end, POLLIN, 0}, {ended_.get(), POLLIN, 0}};
  while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
}

bool SysfsMount::stop() {
  pollfd ended = {ended_.get(), POLLIN, 0};
  if (::poll(&ended, 1, 0) > 0) return true;
  fuse_exit(session_.get());
  // The session's threads sleep in the kernel: aborting the mount, as root may, wakes them.
  if (::umount2(directory_.c_str(), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    fuse_unmount(session_.get());
  }
  return ::poll(&ended, 1, static_cast<int>(kEndPatience.count())) > 0;
}

}  // namespace uzram::control
