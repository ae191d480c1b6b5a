// Files and block devices for the tests of backing stores.
//
// What: files of a size, what they take on the disk, and loop devices on them.
// Units: bytes. Ownership: a LoopDevice is detached when it goes. Threading: one thread.
// Errors: by GoogleTest, but for a LoopDevice, which has an empty path where it can't be.
#ifndef UZRAM_TESTS_UNIT_BACKING_FILE_SUPPORT_H_
#define UZRAM_TESTS_UNIT_BACKING_FILE_SUPPORT_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace uzram::test {

inline std::string make_file(const std::string& path, std::uint64_t size_bytes) {
  const base::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_TRUE(file) << path;
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size_bytes)), 0);
  return path;
}

inline std::uint64_t disk_bytes_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return static_cast<std::uint64_t>(found.st_blocks) * 512;
}

class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file, const std::string& options = "") {
    const std::string command = "losetup -f --show " + options + " '" + file + "' 2>/dev/null";
    std::FILE* const out = ::popen(command.c_str(), "r");
    if (out == nullptr) return;
    char line[64] = "";
    if (std::fgets(line, sizeof line, out) != nullptr) path_ = line;
    if (::pclose(out) != 0) path_.clear();
    if (!path_.empty() && path_.back() == '\n') path_.pop_back();
  }
  ~LoopDevice() {
    if (path_.empty()) return;
    EXPECT_EQ(std::system(("losetup -d " + path_).c_str()), 0);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_UNIT_BACKING_FILE_SUPPORT_H_
