#include "attach/loop/mount_table.h"

#include <spawn.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

namespace uzram::attach {
namespace {

// Blanks and backslashes stand in mountinfo as \ooo.
std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

Result<void> run_fusermount(const std::string& directory) {
  std::string path = directory;
  char name[] = "fusermount3", unmount[] = "-u", quiet[] = "-q", lazy[] = "-z", end[] = "--";
  char* const arguments[] = {name, unmount, quiet, lazy, end, path.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, name, nullptr, nullptr, arguments, environ);
  if (error != 0) return fail_errno(error, "fusermount3");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno(errno, "fusermount3");
  }
  if (status == 0) return {};
  return fail(Status::permission, directory + ": fusermount3 could not unmount it");
}

}  // namespace

Result<std::string> resolve_parent(const std::string& path) {
  std::filesystem::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();  // a slash at the end
  const std::string name = whole.filename().string();
  if (name.empty() || name == "." || name == "..") {
    return fail(Status::invalid_argument,
                "mount directory \"" + path + "\": names no new directory");
  }
  const std::string parent = whole.has_parent_path() ? whole.parent_path().string() : ".";
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(parent.c_str(), nullptr),
                                                             &std::free);
  if (!resolved) return fail_errno(errno, parent);
  const std::string base = resolved.get();
  return (base == "/" ? base : base + "/") + name;
}

std::vector<Mount> read_mounts(const std::string& table_path) {
  std::vector<Mount> mounts;
  std::ifstream table(table_path);
  for (std::string line; std::getline(table, line);) {
    // id parent major:minor root point options [tags] - type source super-options
    std::istringstream fields(line);
    std::string id, parent, device, root, word;
    Mount mount;
    fields >> id >> parent >> device >> root >> mount.point;
    while (fields >> word && word != "-") {
    }
    fields >> mount.type >> mount.source;
    unsigned major_number = 0, minor_number = 0;
    if (!fields || std::sscanf(device.c_str(), "%u:%u", &major_number, &minor_number) != 2)
      continue;
    mount.device = makedev(major_number, minor_number);
    mount.point = unescape(mount.point);
    mount.source = unescape(mount.source);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<Mount> find_mount(const std::string& directory) {
  std::optional<Mount> found;
  for (Mount& mount : read_mounts("/proc/self/mountinfo")) {
    if (mount.point == directory) found = std::move(mount);
  }
  return found;
}

bool is_ours(const Mount& mount) {
  return mount.type == std::string("fuse.") + kMountSubtype;
}

Result<void> unmount_lazily(const std::string& directory) {
  constexpr int kStackedMax = 16;
  for (int i = 0; i < kStackedMax; ++i) {
    const std::optional<Mount> mount = find_mount(directory);
    if (!mount || !is_ours(*mount)) return {};
    if (::umount2(directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
    if (errno == EINVAL) return {};  // gone since we looked
    if (errno != EPERM) return fail_errno(errno, directory + ": unmount");
    if (Result<void> done = run_fusermount(directory); !done) return done;
  }
  return fail(Status::busy,
              directory + ": still mounted after " + std::to_string(kStackedMax) + " unmounts");
}

}  // namespace uzram::attach
