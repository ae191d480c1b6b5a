#include "control/runtime_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace uzram::control {
namespace {

class RuntimeDirTest : public testing::Test {
 protected:
  void SetUp() override { use(temp_.path() + "/run"); }
  void TearDown() override {
    ::unsetenv("UZRAM_RUNTIME_DIR");
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  static void use(const std::string& path) { ::setenv("UZRAM_RUNTIME_DIR", path.c_str(), 1); }
  static mode_t mode_of(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  static Status refusal() {
    const auto dir = RuntimeDir::create();
    return dir ? Status::ok : dir.error().status;
  }
  static void touch(const std::string& path) { std::ofstream(path) << "x"; }

  test::TempDir temp_;
};

TEST(CheckName, TakesPlainNamesOnly) {
  for (const std::string& name :
       {std::string("a"), std::string("A.b_c-9"), std::string("0"), std::string(64, 'a'),
        std::string("a.sock"), std::string("a..")}) {
    EXPECT_TRUE(check_name(name).has_value()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".a"), std::string("-a"),
        std::string("_a"), std::string("a/b"), std::string("../a"), std::string("a b"),
        std::string("a\n"), std::string("a\0b", 3), std::string("\xc3\xa4"),
        std::string(65, 'a')}) {
    const auto checked = check_name(name);
    ASSERT_FALSE(checked.has_value()) << name;
    EXPECT_EQ(checked.error().status, Status::invalid_argument);
  }
}

TEST_F(RuntimeDirTest, IsMadeForItsUserAlone) {
  EXPECT_EQ(RuntimeDir::open().error().status, Status::not_found);
  ASSERT_EQ(refusal(), Status::ok);
  EXPECT_EQ(mode_of(temp_.path() + "/run"), 0700U);
  EXPECT_EQ(RuntimeDir::open().value().path(), temp_.path() + "/run");
}

TEST_F(RuntimeDirTest, IsRefusedWhereOthersCouldMeddle) {
  const std::string run = temp_.path() + "/run";
  ASSERT_EQ(::mkdir(run.c_str(), 0700), 0);
  for (const mode_t mode : {0770U, 0702U, 0720U, 0777U, 01777U}) {
    ASSERT_EQ(::chmod(run.c_str(), mode), 0);
    EXPECT_EQ(refusal(), Status::permission) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(run.c_str(), 0755), 0);
  EXPECT_EQ(refusal(), Status::ok);

  const std::string link = temp_.path() + "/link";
  ASSERT_EQ(::symlink(run.c_str(), link.c_str()), 0);
  for (const char* slashes : {"", "/", "///"}) {
    use(link + slashes);
    EXPECT_EQ(refusal(), Status::permission) << slashes;
  }
  use(temp_.path() + "/file");
  touch(temp_.path() + "/file");
  EXPECT_EQ(refusal(), Status::permission);
  if (::geteuid() != 0) GTEST_SKIP() << "IsRefusedWhereOthersCouldMeddle: chown needs root";
  ASSERT_EQ(::chown(run.c_str(), 65534, 65534), 0);
  use(run);
  EXPECT_EQ(refusal(), Status::permission);
}

TEST_F(RuntimeDirTest, IsNotMadeWithItsParents) {
  use(temp_.path() + "/no/such");
  EXPECT_EQ(refusal(), Status::not_found);
}

TEST_F(RuntimeDirTest, FollowsTheEnvironment) {
  ::unsetenv("UZRAM_RUNTIME_DIR");
  ::setenv("XDG_RUNTIME_DIR", temp_.path().c_str(), 1);
  if (::geteuid() == 0) {
    use(temp_.path() + "/from-root");
    EXPECT_EQ(RuntimeDir::create().value().path(), temp_.path() + "/from-root");
    GTEST_SKIP() << "FollowsTheEnvironment: root uses /run/uzram, not XDG_RUNTIME_DIR";
  }
  EXPECT_EQ(RuntimeDir::create().value().path(), temp_.path() + "/uzram");
  use("");
  EXPECT_EQ(RuntimeDir::open().value().path(), temp_.path() + "/uzram");
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(refusal(), Status::not_found);
}

TEST_F(RuntimeDirTest, NamesComeFromFilesOfDevicesAlone) {
  const auto dir = RuntimeDir::create();
  ASSERT_TRUE(dir.has_value());
  for (const char* file : {"b.json", "b.lock", "a.sock", "c.lock", "d.nbd", "e.json.tmp", ".json",
                           "f", "a.sock.lock", "-x.lock"}) {
    touch(dir->path() + "/" + file);
  }
  EXPECT_EQ(dir->names().value(), (std::vector<std::string>{"a", "a.sock", "b", "c"}));
}

TEST_F(RuntimeDirTest, ALockIsHeldOnceAndSeenFromOutside) {
  const auto dir = RuntimeDir::create();
  ASSERT_TRUE(dir.has_value());
  EXPECT_EQ(dir->lock_state("a"), LockState::absent);
  auto lock = DeviceLock::take(*dir, "a");
  ASSERT_TRUE(lock.has_value());
  EXPECT_EQ(dir->lock_state("a"), LockState::held);
  EXPECT_EQ(dir->lock_state("a"), LockState::held) << "asking must not take or free it";
  EXPECT_EQ(DeviceLock::take(*dir, "a").error().status, Status::exists);
  EXPECT_TRUE(DeviceLock::take(*dir, "b").has_value());

  const DeviceFiles files = dir->files("a");
  for (const std::string& file : {files.record, files.socket}) touch(file);
  lock->remove_leftovers(files);
  EXPECT_FALSE(dir->has_leftovers("a"));
  EXPECT_EQ(dir->lock_state("a"), LockState::held);
  lock->remove_files(files);
  EXPECT_FALSE(dir->has_files("a"));

  // The name may be another's by now: a second removal touches nothing.
  const auto next = DeviceLock::take(*dir, "a");
  ASSERT_TRUE(next.has_value());
  lock->remove_files(files);
  EXPECT_EQ(dir->lock_state("a"), LockState::held);
}

TEST_F(RuntimeDirTest, AKilledHolderLeavesTheLockFree) {
  const auto dir = RuntimeDir::create();
  ASSERT_TRUE(dir.has_value());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    const auto lock = DeviceLock::take(*dir, "a");
    const char done = lock ? 'y' : 'n';
    static_cast<void>(!::write(ready[1], &done, 1));
    for (;;) ::pause();
  }
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  ASSERT_EQ(done, 'y');
  EXPECT_EQ(dir->lock_state("a"), LockState::held);
  EXPECT_FALSE(DeviceLock::take(*dir, "a").has_value());
  ASSERT_EQ(::kill(holder, SIGKILL), 0);
  ASSERT_EQ(::waitpid(holder, nullptr, 0), holder);
  EXPECT_EQ(dir->lock_state("a"), LockState::free);
  EXPECT_TRUE(dir->has_files("a"));
  EXPECT_FALSE(dir->has_leftovers("a"));
  EXPECT_TRUE(DeviceLock::take(*dir, "a").has_value());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace uzram::control
