// Whether `mem_used_total` is what the system says: 1 GiB of pages in a cgroup of their own, with
// huge pages where the system grants them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "tests/support/pages.h"
#include "uzram/device.h"

namespace uzram {
namespace {

namespace fs = std::filesystem;

bool put(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return static_cast<bool>(out);
}

// A cgroup of either version that this process moves into, and out of again.
class OwnCgroup {
 public:
  OwnCgroup() {
    const std::string name = "uzram-test-" + std::to_string(::getpid());
    std::ifstream mine("/proc/self/cgroup");
    for (std::string line; std::getline(mine, line);) {
      const bool v1 = line.find(":memory:") != std::string::npos;
      if (!v1 && line.rfind("0::", 0) != 0) continue;
      const fs::path root = v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
      const fs::path path = root / name;
      std::error_code error;
      if (!fs::create_directory(path, error)) continue;
      if (fs::exists(path / "memory.stat") &&
          put(path / "cgroup.procs", std::to_string(::getpid()))) {
        home_ = root / line.substr(line.rfind(':') + 2);
        path_ = path;
        field_ = v1 ? "rss" : "anon";
        return;
      }
      fs::remove(path, error);
    }
  }
  ~OwnCgroup() {
    if (path_.empty()) return;
    put(home_ / "cgroup.procs", std::to_string(::getpid()));
    std::error_code error;
    fs::remove(path_, error);
  }
  explicit operator bool() const { return !path_.empty(); }

  std::uint64_t anonymous_bytes() const {
    std::ifstream stat(path_ / "memory.stat");
    std::string field;
    std::uint64_t value = 0;
    while (stat >> field >> value) {
      if (field == field_) return value;
    }
    return 0;
  }

 private:
  fs::path home_, path_;
  std::string field_;
};

void expect_close(std::uint64_t ours, std::uint64_t systems, const char* when) {
  std::cout << when << ": ours " << ours << ", the system's " << systems << std::endl;
  const std::uint64_t tolerance = ours * 3 / 100 + (std::uint64_t{16} << 20);
  EXPECT_LE(systems, ours + tolerance) << when;
  EXPECT_GE(systems + tolerance, ours) << when;
}

TEST(SystemMemory, AgreesWithTheCgroup) {
  const OwnCgroup cgroup;
  if (!cgroup) GTEST_SKIP() << "no cgroup with a memory controller can be made here";
  constexpr std::uint64_t kSize = std::uint64_t{1} << 30;
  const std::uint64_t before = cgroup.anonymous_bytes();
  auto device = create_device({.size_bytes = kSize}).value();
  std::mt19937_64 random(3);
  const auto used = [&] {
    const Stats stats = device->stats();
    return stats.mem_used_total + stats.metadata_bytes;
  };
  for (std::uint64_t at = 0; at < kSize; at += kPageBytes) {
    ASSERT_EQ(device->write(at, test::make_page(random, test::PageKind::half)), Status::ok);
  }
  expect_close(used(), cgroup.anonymous_bytes() - before, "filled");
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t at = random() % (kSize / kPageBytes) * kPageBytes;
    const auto kind = static_cast<test::PageKind>(random() % test::kPageKinds);
    ASSERT_EQ(device->write(at, test::make_page(random, kind)), Status::ok);
  }
  device->compact();
  expect_close(used(), cgroup.anonymous_bytes() - before, "overwritten");
  ASSERT_EQ(device->discard(0, kSize), Status::ok);
  device->compact();
  EXPECT_EQ(used(), 0U);
  expect_close(used(), cgroup.anonymous_bytes() - before, "discarded");
}

}  // namespace
}  // namespace uzram
