// What a killed process leaves, and that nothing else is ever taken for it.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/attach/loop_fixture.h"

namespace uzram::attach {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

// Serves a device until it is killed; says where.
auto server(LoopOptions with) {
  return [with] {
    static test::FakeDevice device(64 * kMiB);
    static Result<std::unique_ptr<Attachment>> attachment = start_loop(device, with);
    return std::pair(attachment ? (*attachment)->where() : attachment.error().message, 0);
  };
}

using LoopCleanUp = LoopTest;

TEST_F(LoopCleanUp, NothingThereIsFine) {
  EXPECT_TRUE(clean_up_loop(mount_dir()));
  EXPECT_TRUE(clean_up_loop(dir_ + "/missing/a.fuse"));
  ASSERT_EQ(::mkdir(mount_dir().c_str(), 0700), 0);
  EXPECT_TRUE(clean_up_loop(mount_dir() + "/"));
  EXPECT_FALSE(std::filesystem::exists(mount_dir()));
}

TEST_F(LoopCleanUp, RemovesWhatAKilledProcessLeft) {
  Child child(server(options()));
  const std::string where = child.said();
  ASSERT_TRUE(where.starts_with("/dev/loop")) << where;
  child.kill();
  EXPECT_NE(run("dd if=" + where + " of=/dev/null bs=4k count=1 iflag=direct"), 0);
  const Result<void> done = clean_up_loop(mount_dir());
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_FALSE(is_bound(where));
  EXPECT_FALSE(std::filesystem::exists(mount_dir()));
  test::FakeDevice device(kMiB);
  EXPECT_TRUE(start_loop(device, options()));
}

TEST_F(LoopCleanUp, RemovesTheFileAlone) {
  LoopOptions with = options();
  with.file_only = true;
  Child child(server(with));
  ASSERT_EQ(child.said(), mount_dir() + "/disk");
  child.kill();
  const Result<void> done = clean_up_loop(mount_dir());
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(LoopCleanUp, AMountedFileSystemFailsAtOnceAndUnmounts) {
  if (!has_program("mkfs.ext4")) GTEST_SKIP() << "needs mkfs.ext4";
  for (const bool clean_up_first : {true, false}) {
    Child child(server(options()));
    const std::string where = child.said(), point = dir_ + "/mnt";
    ASSERT_EQ(run("mkfs.ext4 -q " + where), 0);
    ASSERT_TRUE(::mkdir(point.c_str(), 0700) == 0 || errno == EEXIST);
    ASSERT_EQ(::mount(where.c_str(), point.c_str(), "ext4", 0, nullptr), 0);
    ASSERT_EQ(run("cp /bin/sh " + point), 0);  // not written back yet
    child.kill();
    EXPECT_NE(run("cp /bin/sh " + point + "/b && sync -f " + point), 0);
    if (clean_up_first) {
      EXPECT_TRUE(clean_up_loop(mount_dir()));
      EXPECT_FALSE(std::filesystem::exists(mount_dir()));
    }
    EXPECT_EQ(::umount2(point.c_str(), 0), 0);
    EXPECT_TRUE(clean_up_loop(mount_dir()));
    wait_until([&] { return !is_bound(where); });
  }
}

// Buffered writes that nobody synced: the killed process must not wait for itself to store them.
TEST_F(LoopCleanUp, DirtyPagesDoNotKeepTheKilledProcess) {
  Child child(server(options()));
  const std::string where = child.said();
  Child writer([&where] {
    const int fd = ::open(where.c_str(), O_WRONLY | O_CLOEXEC);
    const std::vector<char> data(8 * kMiB, 'x');
    if (::write(fd, data.data(), data.size()) < 0) ::_exit(1);
    return std::pair(std::string("dirty"), fd);
  });
  ASSERT_EQ(writer.said(), "dirty");
  child.kill();  // returns when it has gone
  writer.kill();
  EXPECT_TRUE(clean_up_loop(mount_dir()));
  wait_until([&] { return !is_bound(where); });
}

// In a mount namespace of its own, without /sys.
TEST_F(LoopCleanUp, WorksInAContainerWithoutSys) {
  Child child(server(options()));
  const std::string where = child.said();
  child.kill();
  Child container([this] {
    const bool apart = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::umount2("/sys", MNT_DETACH) == 0;
    const Result<void> done = clean_up_loop(mount_dir());
    return std::pair(!apart ? "no namespace" : done ? "done" : done.error().message, 0);
  });
  if (container.said() == "no namespace") GTEST_SKIP() << "needs a mount namespace of its own";
  EXPECT_EQ(container.said(), "done");
  EXPECT_FALSE(is_bound(where));
  EXPECT_TRUE(clean_up_loop(mount_dir()));
}

TEST_F(LoopCleanUp, RefusesWhatIsServed) {
  test::FakeDevice device(8 * kMiB);
  const auto attachment = start(device, options());
  const Result<void> refused = clean_up_loop(mount_dir());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::busy);
  EXPECT_TRUE(is_bound(attachment->where()));
  EXPECT_EQ(run("dd if=" + attachment->where() + " of=/dev/null bs=4k count=1 iflag=direct"), 0);
}

TEST_F(LoopCleanUp, RefusesWhatIsNotOurs) {
  ASSERT_EQ(::mkdir(mount_dir().c_str(), 0700), 0);
  ASSERT_EQ(::mount("none", mount_dir().c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(clean_up_loop(mount_dir()).error().status, Status::exists);
  ASSERT_EQ(::umount2(mount_dir().c_str(), 0), 0) << "another's mount was taken away";
  // A file of the same name in a plain directory, with a loop device of its owner.
  const std::string image = mount_dir() + "/disk";
  ASSERT_EQ(run("truncate -s 8M " + image + " && losetup -f " + image), 0);
  EXPECT_FALSE(clean_up_loop(mount_dir()));
  struct stat file;
  ASSERT_EQ(::stat(image.c_str(), &file), 0);
  const std::vector<int> bound = loops_bound_to({file.st_dev, file.st_ino, image});
  ASSERT_EQ(bound.size(), 1U) << "another's loop device was taken away";
  ASSERT_EQ(run("losetup -d " + loop_path(bound[0])), 0);
  std::filesystem::remove_all(mount_dir());
}

TEST(LoopMountTable, ReadsEscapesAndOptionalFields) {
  const std::string path = testing::TempDir() + "mountinfo-" + std::to_string(::getpid());
  {
    std::ofstream out(path);
    out << "36 35 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 shared:7 - ext3 /dev/root rw\n"
        << "37 35 0:42 / /m\\134n rw - fuse.uzram uzram rw,user_id=0\n"
        << "38 35 broken / /x rw - ext4 /dev/x rw\n"
        << "39 35 0:1 / /no/type rw\n";
  }
  const std::vector<Mount> mounts = read_mounts(path);
  std::filesystem::remove(path);
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].point, "/mnt/a b");
  EXPECT_EQ(mounts[0].type, "ext3");
  EXPECT_EQ(mounts[0].source, "/dev/root");
  EXPECT_EQ(mounts[1].point, "/m\\n");
  EXPECT_TRUE(is_ours(mounts[1]));
  EXPECT_FALSE(is_ours(mounts[0]));
}

}  // namespace
}  // namespace uzram::attach
