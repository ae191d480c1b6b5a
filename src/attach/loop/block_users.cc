#include "attach/loop/block_users.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "attach/loop/mount_table.h"

namespace uzram::attach {
namespace {

namespace fs = std::filesystem;

bool all_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The device or a partition of it: loop0, loop0p1.
bool names(const std::string& path, const std::string& device) {
  if (!path.starts_with(device)) return false;
  const std::string rest = path.substr(device.size());
  return rest.empty() || (rest[0] == 'p' && all_digits(rest.substr(1)));
}

std::string link_text(const fs::path& path) {
  std::error_code error;
  return fs::read_symlink(path, error).string();
}

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string mounted(const fs::path& mountinfo, const std::string& device) {
  for (const Mount& mount : read_mounts(mountinfo)) {
    if (names(mount.source, device)) return "mounted on " + mount.point;
  }
  return {};
}

std::string swapped_on(const std::string& device) {
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    if (names(line.substr(0, line.find_first_of(" \t")), device)) return "a swap area";
  }
  return {};
}

// Drivers that stand on the device (device mapper, RAID), as the kernel lists them.
std::string held_by_driver(const std::string& device) {
  const fs::path holders = "/sys/class/block/" + fs::path(device).filename().string() + "/holders";
  std::error_code error;
  for (const auto& holder : fs::directory_iterator(holders, error)) {
    return "held by " + holder.path().filename().string();
  }
  return {};
}

}  // namespace

BlockUsers users_of(const std::string& device) {
  BlockUsers users;
  std::string kernel = mounted("/proc/self/mountinfo", device);
  if (kernel.empty()) kernel = swapped_on(device);
  if (kernel.empty()) kernel = held_by_driver(device);

  std::set<std::string> namespaces = {link_text("/proc/self/ns/mnt")};
  const std::string self = std::to_string(::getpid());
  std::string program;
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename().string();
    if (!all_digits(pid) || pid == self) continue;
    if (kernel.empty() && namespaces.insert(link_text(process.path() / "ns/mnt")).second) {
      kernel = mounted(process.path() / "mountinfo", device);
    }
    std::error_code gone;
    for (fs::directory_iterator fd(process.path() / "fd", gone), end; !gone && fd != end;
         fd.increment(gone)) {
      if (!names(link_text(fd->path()), device)) continue;
      ++users.count;
      if (program.empty()) {
        program = "open in " + first_word(process.path() / "comm") + " (process " + pid + ")";
      }
    }
  }
  if (!kernel.empty()) ++users.count;
  users.first = kernel.empty() ? program : kernel;
  return users;
}

}  // namespace uzram::attach
