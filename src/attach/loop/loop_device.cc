#include "attach/loop/loop_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace uzram::attach {
namespace {

// The path of a bound device's backing file; empty where it is not bound.
std::string backing_path(int number) {
  std::ifstream file("/sys/block/loop" + std::to_string(number) + "/loop/backing_file");
  std::string path;
  std::getline(file, path, '\0');
  if (!path.empty() && path.back() == '\n') path.pop_back();
  // A connection that is gone has made the kernel drop the name.
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.size() > kDeleted.size() && path.ends_with(kDeleted)) {
    path.resize(path.size() - kDeleted.size());
  }
  return path;
}

std::vector<int> numbers_in(const std::string& directory) {
  constexpr std::string_view kPrefix = "loop";
  std::vector<int> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int number = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) numbers.push_back(number);
  }
  return numbers;
}

// Devices worth opening. /sys tells which have a backing file of that name, wherever it is mounted
// by now, and spares the others; in a container without /sys it may be any.
std::vector<int> candidates(const Backing& backing) {
  std::vector<int> numbers = numbers_in("/sys/block");
  if (numbers.empty()) return numbers_in("/dev");
  const std::string name = backing.path.substr(backing.path.rfind('/'));
  std::erase_if(numbers, [&](int number) { return !backing_path(number).ends_with(name); });
  return numbers;
}

// `device` is open, so the answer stays true until it is closed.
bool is_bound_to(const base::Fd& device, int number, const Backing& backing, loop_info64& info) {
  if (::ioctl(device.get(), LOOP_GET_STATUS64, &info) == 0) {
    return info.lo_device == backing.device && info.lo_inode == backing.inode;
  }
  return errno != ENXIO && backing_path(number) == backing.path;
}

// A descriptor of a device that is bound to `backing`; none where it isn't.
Result<base::Fd> open_bound(int number, const Backing& backing, loop_info64& info) {
  base::Fd device(::open(loop_path(number).c_str(), O_RDONLY | O_CLOEXEC));
  if (!device) {
    if (errno == ENXIO || errno == ENOENT || errno == ENODEV) return base::Fd();
    return fail_errno(errno, loop_path(number));
  }
  if (!is_bound_to(device, number, backing, info)) device.reset();
  return device;
}

}  // namespace

std::string loop_path(int number) {
  return "/dev/loop" + std::to_string(number);
}

Result<int> bind_loop(const base::Fd& file, const std::string& path, unsigned block_size,
                      bool read_only) {
  constexpr int kTriesMax = 64;  // others take free numbers too
  constexpr int kPauseMs = 10;
  const base::Fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) {
    if (errno == ENOENT || errno == ENODEV) {
      return fail(Status::not_found,
                  "/dev/loop-control: this kernel has no loop devices "
                  "(module \"loop\")");
    }
    return fail_errno(errno, "/dev/loop-control");
  }
  loop_config config{};
  config.fd = static_cast<unsigned>(file.get());
  config.block_size = block_size;
  // Direct, as the file does its own caching by being memory; and a server must not dirty pages to
  // serve a write of dirty pages.
  config.info.lo_flags = LO_FLAGS_DIRECT_IO | (read_only ? unsigned{LO_FLAGS_READ_ONLY} : 0U);
  path.copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
  for (int i = 0; i < kTriesMax; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_errno(errno, "no free loop device");
    const std::string name = loop_path(number);
    const base::Fd device(::open(name.c_str(), (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC));
    if (device) {
      if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) return number;
      if (errno == EINVAL || errno == ENOTTY) {
        return fail(Status::not_supported, name + ": configure refused (needs Linux 5.8)");
      }
    }
    if (errno != EBUSY && errno != ENXIO) return fail_errno(errno, name);
    ::poll(nullptr, 0, kPauseMs);
  }
  return fail(Status::busy, "loop device: every free one was taken by others, " +
                                std::to_string(kTriesMax) + " times");
}

// Another's device of that number is not even tried: it may be in use, and a claim disturbs.
Result<base::Fd> claim_loop(int number, const Backing& backing) {
  loop_info64 info{};
  Result<base::Fd> device = open_bound(number, backing, info);
  if (!device || !*device) return device;
  base::Fd claim(::open(loop_path(number).c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (!claim) return fail_errno(errno, loop_path(number));
  return claim;
}

Result<std::optional<std::uint64_t>> resize_loop(int number, const Backing& backing) {
  loop_info64 info{};
  const Result<base::Fd> device = open_bound(number, backing, info);
  if (!device) return tl::unexpected<Error>(device.error());
  if (!*device) return std::nullopt;
  std::uint64_t size = 0;
  if (::ioctl(device->get(), LOOP_SET_CAPACITY) != 0 ||
      ::ioctl(device->get(), BLKGETSIZE64, &size) != 0) {
    return fail_errno(errno, loop_path(number) + ": resize");
  }
  return size;
}

Result<bool> unbind_loop(int number, const Backing& backing, Unbind how) {
  loop_info64 info{};
  Result<base::Fd> device = how == Unbind::now_or_refuse ? claim_loop(number, backing)
                                                         : open_bound(number, backing, info);
  if (!device) return tl::unexpected<Error>(std::move(device.error()));
  if (!*device) return false;
  if (::ioctl(device->get(), LOOP_CLR_FD) != 0) {
    if (errno == ENXIO) return false;
    return fail_errno(errno, loop_path(number) + ": detach");
  }
  return true;
}

Result<bool> keep_loop(int number, const Backing& backing) {
  loop_info64 info{};
  Result<base::Fd> device = open_bound(number, backing, info);
  if (!device) return tl::unexpected<Error>(std::move(device.error()));
  if (!*device) return false;
  info.lo_flags &= ~unsigned{LO_FLAGS_AUTOCLEAR};
  if (::ioctl(device->get(), LOOP_SET_STATUS64, &info) != 0) {
    if (errno == ENXIO) return false;
    return fail_errno(errno, loop_path(number) + ": keep");
  }
  return true;
}

std::vector<int> loops_bound_to(const Backing& backing) {
  std::vector<int> bound;
  for (const int number : candidates(backing)) {
    loop_info64 info{};
    const Result<base::Fd> device = open_bound(number, backing, info);
    if (device && *device) bound.push_back(number);
  }
  return bound;
}

}  // namespace uzram::attach
