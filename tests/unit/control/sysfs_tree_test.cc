#include "control/sysfs_tree.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "control/methods.h"
#include "control/server.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/fake_host.h"
#include "tests/unit/control/real_host.h"

namespace uzram::control {
namespace {

// A runtime directory with the device "a", which this process serves.
class SysfsTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("UZRAM_RUNTIME_DIR", (temp_.path() + "/run").c_str(), 1);
    dir_.emplace(RuntimeDir::create().value());
    tree_.emplace(
        *dir_,
        [this](const std::string& name) -> Result<void> {
          started_.push_back(name);
          if (taken_.count(name) != 0) return fail(Status::exists, name + ": taken");
          return {};
        },
        [this](const std::string& name) -> Result<void> {
          stopped_.push_back(name);
          if (refusal_) return tl::unexpected(*refusal_);
          return {};
        });
  }
  void TearDown() override { ::unsetenv("UZRAM_RUNTIME_DIR"); }

  // Shows `host` as a device of that name.
  void serve(const std::string& name, Host& host) {
    auto lock = DeviceLock::take(*dir_, name);
    ASSERT_TRUE(lock.has_value());
    locks_.push_back(std::move(*lock));
    publish(name, host.record());
    auto server = Server::start(dir_->files(name).socket,
                                [&host](std::string_view line) { return answer(host, line); });
    ASSERT_TRUE(server.has_value()) << server.error().message;
    servers_.push_back(std::move(*server));
  }
  void publish(const std::string& name, const DeviceRecord& record) {
    ASSERT_TRUE(write_record(dir_->files(name).record, record).has_value());
  }

  std::string read(const std::string& path) const {
    const auto node = tree_->look_up(path);
    if (!node) return "no such file";
    std::string text;
    for (std::uint64_t from = 0;;) {
      const auto part = tree_->read(*node, from);
      if (!part) return "error: " + std::string(describe(part.error().status));
      text += part->text;
      if (!part->next) return text;
      from = *part->next;
    }
  }
  Status write(const std::string& path, std::string_view text) const {
    const auto node = tree_->look_up(path);
    if (!node) return node.error().status;
    const auto written = tree_->write(*node, text);
    return written ? Status::ok : written.error().status;
  }
  std::set<std::string> list(const std::string& path) const {
    const auto names = tree_->list(path);
    if (!names) return {"error"};
    return {names->begin(), names->end()};
  }

  test::TempDir temp_;
  std::optional<RuntimeDir> dir_;
  std::optional<SysfsTree> tree_;
  std::set<std::string> taken_;
  std::optional<Error> refusal_;
  std::vector<std::string> started_, stopped_;
  std::vector<DeviceLock> locks_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(SysfsTreeTest, HasTheKernelsShape) {
  test::RealHost host;
  serve("a", host);
  EXPECT_EQ(list("/"), (std::set<std::string>{"block", "class", "dev"}));
  EXPECT_EQ(list("/class/zram-control"), (std::set<std::string>{"hot_add", "hot_remove"}));
  EXPECT_EQ(list("/block"), std::set<std::string>{"a"});
  EXPECT_EQ(list("/dev"), std::set<std::string>{}) << "nothing is attached";
  const auto files = list("/block/a");
  for (const char* name :
       {"disksize", "initstate", "reset", "comp_algorithm", "mem_limit", "mem_used_max", "compact",
        "mm_stat", "io_stat", "debug_stat", "size", "ro", "stat", "queue"}) {
    EXPECT_EQ(files.count(name), 1U) << name;
  }
  EXPECT_EQ(files.count("dev"), 0U);
  EXPECT_EQ(files.count("orig_data_size"), 0U) << "the kernel has no such file";
  // Whatever is listed can be looked up, and nothing else.
  for (const std::string& name : files) {
    EXPECT_TRUE(tree_->look_up("/block/a/" + name).has_value()) << name;
  }
  for (const std::string& name : list("/block/a/queue")) {
    EXPECT_TRUE(tree_->look_up("/block/a/queue/" + name)->is_file()) << name;
  }
  for (const char* path : {"/nosuch", "/block/b", "/block/a/nosuch", "/block/a/queue/nosuch",
                           "/block/a/mm_stat/x", "/class/x", "/class/zram-control/x", "/dev/a",
                           "/block/a/queue/rotational/x", "/block/..", "/block/a/orig_data_size"}) {
    EXPECT_EQ(tree_->look_up(path).error().status, Status::not_found) << path;
  }
}

TEST_F(SysfsTreeTest, ModesFollowTheTable) {
  test::RealHost host;
  serve("a", host);
  const auto mode = [this](const std::string& path) {
    const auto node = tree_->look_up(path).value();
    return std::string(node.readable() ? "r" : "") + (node.writable() ? "w" : "");
  };
  EXPECT_EQ(mode("/block/a/disksize"), "rw");
  EXPECT_EQ(mode("/block/a/reset"), "w");
  EXPECT_EQ(mode("/block/a/mm_stat"), "r");
  EXPECT_EQ(mode("/block/a/size"), "r");
  EXPECT_EQ(mode("/class/zram-control/hot_add"), "r");
  EXPECT_EQ(mode("/class/zram-control/hot_remove"), "w");
}

TEST_F(SysfsTreeTest, ReadsAndWritesReachTheDevice) {
  test::RealHost host;
  serve("a", host);
  EXPECT_EQ(read("/block/a/initstate"), "0\n");
  EXPECT_EQ(write("/block/a/comp_algorithm", "zstd\n"), Status::ok);
  EXPECT_EQ(write("/block/a/mem_limit", "1M"), Status::ok);
  EXPECT_EQ(write("/block/a/disksize", "16M\n"), Status::ok);
  EXPECT_EQ(read("/block/a/initstate"), "1\n");
  EXPECT_EQ(read("/block/a/mm_stat"), "0 0 0 1048576 0 0 0 0 0\n");
  EXPECT_EQ(read("/block/a/debug_stat"), "version: 1\n0 0\n");
  EXPECT_EQ(write("/block/a/disksize", "16M"), Status::busy);
  EXPECT_EQ(write("/block/a/mem_limit", "x"), Status::invalid_argument);
  EXPECT_EQ(write("/block/a/mem_limit", "1M\n\n"), Status::invalid_argument);
  EXPECT_EQ(write("/block/a/mem_limit", std::string(SysfsTree::kWriteBytesMax + 1, '0')),
            Status::invalid_argument);
  EXPECT_EQ(write("/block/a/mem_limit", std::string(SysfsTree::kWriteBytesMax, '0')), Status::ok);
}

TEST_F(SysfsTreeTest, BlockFilesTellOfRecordAndCounters) {
  test::FakeHost host;
  serve("a", host);
  const auto sectors = std::to_string(test::FakeHost::kSizeBytes / 512);
  EXPECT_EQ(read("/block/a/size"), sectors + "\n");
  EXPECT_EQ(read("/block/a/ro"), "0\n");
  EXPECT_EQ(read("/block/a/queue/logical_block_size"), "4096\n");
  const std::byte page[kPageBytes] = {};
  ASSERT_EQ(host.device()->write(0, page), Status::ok);
  ASSERT_EQ(host.device()->discard(0, 1024), Status::ok);
  std::istringstream columns(read("/block/a/stat"));
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; columns >> number;) numbers.push_back(number);
  EXPECT_EQ(numbers,
            (std::vector<std::uint64_t>{0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0}));
}

TEST_F(SysfsTreeTest, TheLinkLeadsToTheBlockDeviceOrFile) {
  test::FakeHost host;
  serve("a", host);
  EXPECT_EQ(tree_->look_up("/dev/a").error().status, Status::not_found) << "NBD has no path";
  DeviceRecord record = host.record();
  record.attachments.push_back({"loop", temp_.path(), ""});
  publish("a", record);
  EXPECT_EQ(tree_->link_target(tree_->look_up("/dev/a").value()).value(), temp_.path());
  EXPECT_FALSE(tree_->look_up("/block/a/dev").has_value()) << "it is no block device";
}

TEST_F(SysfsTreeTest, HotAddTakesTheLowestFreeNumber) {
  test::RealHost host;
  EXPECT_EQ(read("/class/zram-control/hot_add"), "0\n");
  serve("zram0", host);
  serve("zram2", host);
  EXPECT_EQ(read("/class/zram-control/hot_add"), "1\n");
  // Somebody else is quicker.
  taken_ = {"zram1", "zram3"};
  EXPECT_EQ(read("/class/zram-control/hot_add"), "4\n");
  EXPECT_EQ(started_, (std::vector<std::string>{"zram0", "zram1", "zram1", "zram3", "zram4"}));
}

TEST_F(SysfsTreeTest, HotRemoveJudgesTheNumberFirst) {
  test::FakeHost host;
  serve("zram7", host);
  const std::string file = "/class/zram-control/hot_remove";
  for (const char* text : {"", "x", "-1", "1x", "99999999999", "zram7", "7 "}) {
    EXPECT_EQ(write(file, text), Status::invalid_argument) << text;
  }
  EXPECT_EQ(write(file, "6"), Status::no_device);
  host.clients_now = 1;
  EXPECT_EQ(write(file, "7"), Status::busy);
  EXPECT_EQ(stopped_, std::vector<std::string>{});
  host.clients_now = 0;
  refusal_ = Error{Status::busy, "mounted"};
  EXPECT_EQ(write(file, "7"), Status::busy);
  refusal_ = Error{Status::not_found, "gone meanwhile"};
  EXPECT_EQ(write(file, "7"), Status::no_device);
  refusal_.reset();
  EXPECT_EQ(write(file, "7\n"), Status::ok);
  EXPECT_EQ(stopped_.size(), 3U);
}

TEST_F(SysfsTreeTest, ADeviceThatGoesTakesItsFilesAlong) {
  test::RealHost host;
  serve("a", host);
  const auto node = tree_->look_up("/block/a/mm_stat").value();
  const auto size = tree_->look_up("/block/a/size").value();
  servers_.clear();
  locks_.front().remove_files(dir_->files("a"));
  EXPECT_EQ(tree_->read(node, 0).error().status, Status::no_device);
  EXPECT_EQ(tree_->read(size, 0).error().status, Status::no_device);
  EXPECT_EQ(tree_->write(tree_->look_up("/").value(), "1").error().status, Status::not_found);
  EXPECT_EQ(list("/block"), std::set<std::string>{});
}

}  // namespace
}  // namespace uzram::control
