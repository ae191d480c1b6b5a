// What the tests of the loop attachment share.
//
// What: a private directory, skipping by name where the machine lacks something, and the check that
//   nothing is left behind. Units: bytes. Ownership: one directory per test. Threading: one thread.
// Errors: by GoogleTest.
#ifndef UZRAM_TESTS_UNIT_ATTACH_LOOP_FIXTURE_H_
#define UZRAM_TESTS_UNIT_ATTACH_LOOP_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attach/loop/loop.h"
#include "attach/loop/loop_device.h"
#include "attach/loop/mount_table.h"
#include "base/fd.h"
#include "tests/support/fake_device.h"

namespace uzram::attach {

inline std::string missing_for_fuse() {
  if (::geteuid() != 0) return "needs root";
  const base::Fd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  return fuse ? "" : "needs /dev/fuse";
}

inline std::string missing_for_loop() {
  const base::Fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  return control ? missing_for_fuse() : "needs /dev/loop-control and root";
}

inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

// Runs it quietly; its exit status.
inline int run(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What the kernel says of a loop device, or nothing and errno, which is ENXIO where it isn't bound.
inline std::optional<loop_info64> loop_info(const std::string& device) {
  loop_info64 info{};
  int error = 0;
  {
    const base::Fd fd(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || ::ioctl(fd.get(), LOOP_GET_STATUS64, &info) != 0) error = errno;
  }
  errno = error;
  return error == 0 ? std::optional(info) : std::nullopt;
}

inline bool has_flag(const std::string& device, unsigned flag) {
  const std::optional<loop_info64> info = loop_info(device);
  return info && (info->lo_flags & flag) != 0;
}

// Looks again until it is so, for as long as the test may run.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

// A process that has `path` open, or runs `body`, until it is killed.
class Child {
 public:
  // `body` returns when it is ready; its string is given to the parent.
  template <typename Body>
  explicit Child(Body body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      const auto keep = body();
      const std::string text = keep.first;
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      ::close(ends[1]);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char buffer[256];
    ssize_t got = 0;
    while ((got = ::read(ends[0], buffer, sizeof buffer)) > 0) {
      said_.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& said() const { return said_; }
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::string said_;
};

inline auto opener(std::string path) {
  return
      [path] { return std::pair(std::string("open"), ::open(path.c_str(), O_RDONLY | O_CLOEXEC)); };
}

class LoopTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_for_loop(); !missing.empty()) GTEST_SKIP() << missing;
    std::string pattern = testing::TempDir() + "uzram-loop-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = resolve_parent(pattern).value();
  }

  void TearDown() override {
    if (dir_.empty()) return;
    for (const Mount& mount : read_mounts("/proc/self/mountinfo")) {
      EXPECT_FALSE(mount.point.starts_with(dir_)) << "still mounted: " << mount.point;
    }
    for (const auto& entry : std::filesystem::directory_iterator("/dev")) {
      const std::string device = entry.path().string();
      if (!device.starts_with("/dev/loop")) continue;
      const std::optional<loop_info64> info = loop_info(device);
      EXPECT_FALSE(info && is_named_here(*info)) << "still bound: " << device;
    }
    EXPECT_FALSE(std::filesystem::exists(mount_dir()));
    std::error_code error;
    std::filesystem::remove_all(dir_, error);
  }

  std::string mount_dir() const { return dir_ + "/a.fuse"; }
  LoopOptions options() const {
    LoopOptions out;
    out.mount_dir = mount_dir();
    return out;
  }
  // To a file of this test: other programs take numbers as soon as they are free.
  bool is_bound(const std::string& device) const {
    const std::optional<loop_info64> info = loop_info(device);
    return info ? is_named_here(*info) : errno != ENXIO;
  }
  bool is_named_here(const loop_info64& info) const {
    return std::string(reinterpret_cast<const char*>(info.lo_file_name)).starts_with(dir_);
  }
  std::unique_ptr<Attachment> start(Device& device, const LoopOptions& with) {
    Result<std::unique_ptr<Attachment>> started = start_loop(device, with);
    if (!started) throw std::runtime_error(started.error().message);  // ends the test, as failed
    return std::move(*started);
  }

  std::string dir_;
};

}  // namespace uzram::attach

#endif  // UZRAM_TESTS_UNIT_ATTACH_LOOP_FIXTURE_H_
