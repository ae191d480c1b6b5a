#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "backing/store.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/backing/file_support.h"

namespace uzram::backing {
namespace {

using test::make_file;

class Refusal : public testing::Test {
 protected:
  // One line that begins with the path and goes on to tell why.
  static void expect_refused(const std::string& where, Status status, const std::string& why) {
    const auto store = open_store(where);
    ASSERT_FALSE(store) << where;
    EXPECT_EQ(store.error().status, status) << store.error().message;
    const std::string& message = store.error().message;
    EXPECT_EQ(message.substr(0, where.size() + 2), where + ": ");
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  std::string at(const std::string& name) const { return dir_.path() + "/" + name; }

  const test::TempDir dir_;
};

TEST_F(Refusal, NotOneWholeBlock) {
  for (const std::uint64_t size : {0U, 1U, 4095U}) {
    const std::string path = make_file(at(std::to_string(size)), size);
    expect_refused(path, Status::invalid_argument, std::to_string(size) + " bytes, less than");
  }
  const auto store = open_store(make_file(at("4097"), 4097));
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ((*store)->block_count(), 1U);
}

TEST_F(Refusal, NeitherFileNorBlockDevice) {
  expect_refused(dir_.path(), Status::invalid_argument, "a directory");
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  expect_refused(at("fifo"), Status::invalid_argument, "a FIFO");
  expect_refused("/dev/zero", Status::invalid_argument, "a character device");
  const base::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, at("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refused(at("socket"), Status::invalid_argument, "a socket");
}

TEST_F(Refusal, Missing) {
  expect_refused(at("missing"), Status::not_found, "No such file");
  ASSERT_EQ(::symlink(at("missing").c_str(), at("link").c_str()), 0);
  expect_refused(at("link"), Status::not_found, "No such file");
}

TEST_F(Refusal, NoName) {
  for (const std::string& where : {std::string(), std::string("a\0b", 3)}) {
    const auto store = open_store(where);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().status, Status::invalid_argument);
  }
}

TEST_F(Refusal, NoPermission) {
  const bool is_root = ::geteuid() == 0;
  const std::string read_only = make_file(at("read-only"), kBlockBytes);
  const std::string secret = make_file(at("secret"), kBlockBytes);
  ASSERT_EQ(::chmod(read_only.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(is_root ? kNobody : ::geteuid()), 0);
  expect_refused(read_only, Status::permission, "Permission denied");
  expect_refused(secret, Status::permission, "Permission denied");
  ASSERT_EQ(::seteuid(is_root ? 0 : ::geteuid()), 0);
}

TEST_F(Refusal, Taken) {
  const std::string path = make_file(at("file"), 2 * kBlockBytes);
  ASSERT_EQ(::symlink("file", at("link").c_str()), 0);
  auto first = open_store(path);
  ASSERT_TRUE(first) << first.error().message;
  expect_refused(path, Status::busy, "in use");
  expect_refused(at("link"), Status::busy, "in use");
  first->reset();
  EXPECT_TRUE(open_store(at("link")));
}

TEST_F(Refusal, ReadOnlyDevice) {
  const test::LoopDevice device(make_file(at("file"), 1 << 20), "--read-only");
  if (device.path().empty()) GTEST_SKIP() << "needs root and loop devices (losetup)";
  const auto store = open_store(device.path());
  ASSERT_FALSE(store);
  EXPECT_TRUE(store.error().status == Status::read_only ||
              store.error().status == Status::permission)
      << store.error().message;
}

}  // namespace
}  // namespace uzram::backing
