#include "control/runtime_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace uzram::control {
namespace {

constexpr std::size_t kNameBytesMax = 64;
// The files by which `names` finds a device; a foreign NAME.nbd alone does not make one.
constexpr std::array<std::string_view, 3> kSuffixes = {".lock", ".sock", ".json"};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> wanted_path() {
  std::string path = environment("UZRAM_RUNTIME_DIR");
  if (path.empty() && ::geteuid() == 0) path = "/run/uzram";
  if (path.empty()) {
    path = environment("XDG_RUNTIME_DIR");
    if (path.empty()) {
      return fail(Status::not_supported,
                  "runtime directory: neither UZRAM_RUNTIME_DIR nor XDG_RUNTIME_DIR is set");
    }
    path += "/uzram";
  }
  if (path.front() != '/') {
    const std::unique_ptr<char, decltype(&std::free)> here(::getcwd(nullptr, 0), &std::free);
    if (!here) return fail_errno(errno, "current directory");
    path = std::string(here.get()) + "/" + path;
  }
  // A final slash would have the symbolic link followed that we mean to refuse.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The lock of a whole file, by open file description.
struct flock whole_file_lock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Whether the file that `fd` has open is the one that stands at `path` now.
bool still_at(int fd, const std::string& path) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

Result<void> check_name(std::string_view name) {
  const bool good =
      !name.empty() && name.size() <= kNameBytesMax && is_letter_or_digit(name.front()) &&
      std::all_of(name.begin(), name.end(),
                  [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
  if (good) return {};
  return fail(Status::invalid_argument,
              "name '" + std::string(name) +
                  "': must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit");
}

Result<RuntimeDir> RuntimeDir::create() {
  return find(true);
}
Result<RuntimeDir> RuntimeDir::open() {
  return find(false);
}

Result<RuntimeDir> RuntimeDir::find(bool create) {
  auto path = wanted_path();
  if (!path) return tl::unexpected(path.error());
  const std::string what = "runtime directory '" + *path + "'";
  if (create && ::mkdir(path->c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(errno, what);
  }
  const base::Fd dir(::open(path->c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return fail_errno(errno, what);
  struct stat info = {};
  if (::fstat(dir.get(), &info) != 0) return fail_errno(errno, what);
  if (S_ISLNK(info.st_mode)) return fail(Status::permission, what + ": is a symbolic link");
  if (!S_ISDIR(info.st_mode)) return fail(Status::permission, what + ": is not a directory");
  if (info.st_uid != ::geteuid()) {
    return fail(Status::permission, what + ": belongs to another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(Status::permission, what + ": group or others may write to it");
  }
  return RuntimeDir(std::move(*path));
}

DeviceFiles RuntimeDir::files(std::string_view name) const {
  const std::string stem = path_ + "/" + std::string(name);
  return {stem + ".lock", stem + ".sock", stem + ".json", stem + ".nbd", stem + ".loop"};
}

Result<std::vector<std::string>> RuntimeDir::names() const {
  struct CloseDir {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(path_.c_str()));
  if (!dir) return fail_errno(errno, path_);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view file = entry->d_name;
    for (const std::string_view suffix : kSuffixes) {
      if (!file.ends_with(suffix)) continue;
      const std::string_view name = file.substr(0, file.size() - suffix.size());
      if (check_name(name)) names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

LockState RuntimeDir::lock_state(std::string_view name) const {
  const base::Fd file(::open(files(name).lock.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return LockState::absent;
  struct flock lock = whole_file_lock();
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) return LockState::absent;
  return lock.l_type == F_UNLCK ? LockState::free : LockState::held;
}

bool RuntimeDir::has_socket(std::string_view name) const {
  return exists(files(name).socket);
}

bool RuntimeDir::has_leftovers(std::string_view name) const {
  return has_socket(name) || exists(files(name).record);
}

bool RuntimeDir::has_files(std::string_view name) const {
  return has_leftovers(name) || exists(files(name).lock);
}

Result<DeviceLock> DeviceLock::take(const RuntimeDir& dir, std::string_view name) {
  const std::string path = dir.files(name).lock;
  // A file that its last holder removed between our open and our lock guards nothing: open anew.
  for (int attempt = 0; attempt < 100; ++attempt) {
    base::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return fail_errno(errno, path);
    struct flock lock = whole_file_lock();
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
      if (errno != EAGAIN && errno != EACCES) return fail_errno(errno, path);
      return fail(Status::exists, "'" + std::string(name) + "': is running already");
    }
    if (still_at(file.get(), path)) return DeviceLock(std::move(file));
  }
  return fail(Status::busy, path + ": is being removed all the time");
}

void DeviceLock::remove_leftovers(const DeviceFiles& files) {
  if (!file_) return;
  for (const std::string& path : {files.socket, files.record, files.record + ".tmp"}) {
    ::unlink(path.c_str());
  }
}

void DeviceLock::remove_files(const DeviceFiles& files) {
  if (!file_) return;
  remove_leftovers(files);
  ::unlink(files.lock.c_str());
  file_.reset();
}

}  // namespace uzram::control
