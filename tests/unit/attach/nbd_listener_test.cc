#include "attach/nbd/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

namespace uzram::attach::nbd {
namespace {

namespace fs = std::filesystem;

class NbdListener : public ::testing::Test {
 protected:
  NbdListener() {
    char name[] = "/tmp/uzram-listen-test-XXXXXX";
    directory = ::mkdtemp(name);
    address.path = directory + "/s";
  }
  ~NbdListener() override { fs::remove_all(directory); }

  static sockaddr_un name_of(const std::string& path) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    return name;
  }
  bool connects() const {
    const base::Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = name_of(address.path);
    return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  }
  // A socket file as a crash leaves it behind.
  void make_stale() const {
    const base::Fd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = name_of(address.path);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  }
  void expect_refused(Status status, const std::string& why) const {
    const auto listener = Listener::open(address);
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().status, status) << listener.error().message;
    EXPECT_NE(listener.error().message.find(to_string(address)), std::string::npos)
        << listener.error().message;
    EXPECT_NE(listener.error().message.find(why), std::string::npos) << listener.error().message;
  }
  // Nothing but the socket may be in the directory.
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
  }

  std::string directory;
  NbdAddress address;
};

TEST_F(NbdListener, MakesAPrivateSocketAndTakesItAway) {
  const mode_t old = ::umask(0);
  {
    const auto listener = Listener::open(address);
    ::umask(old);
    ASSERT_TRUE(listener) << listener.error().message;
    struct stat made {};
    ASSERT_EQ(::stat(address.path.c_str(), &made), 0);
    EXPECT_TRUE(S_ISSOCK(made.st_mode));
    EXPECT_EQ(made.st_mode & 07777, 0600U);
    EXPECT_EQ(files(), 1);
    EXPECT_TRUE(connects());
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(NbdListener, ReplacesAStaleSocket) {
  make_stale();
  EXPECT_FALSE(connects());
  const auto listener = Listener::open(address);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(connects());
  EXPECT_EQ(files(), 1);
}

TEST_F(NbdListener, NeverReplacesALiveOne) {
  const auto first = Listener::open(address);
  ASSERT_TRUE(first);
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(address.path.c_str(), &before), 0);
  expect_refused(Status::busy, "in use");
  ASSERT_EQ(::stat(address.path.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_TRUE(connects());
  EXPECT_EQ(files(), 1);
}

TEST_F(NbdListener, ASocketOfAnotherKindIsLiveToo) {
  const base::Fd other(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_un name = name_of(address.path);
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  expect_refused(Status::busy, "in use");
  EXPECT_EQ(files(), 1);
}

TEST_F(NbdListener, LeavesWhatIsNotASocketAlone) {
  std::ofstream(address.path) << "precious";
  expect_refused(Status::exists, "not a socket");
  std::string text;
  std::ifstream(address.path) >> text;
  EXPECT_EQ(text, "precious");

  fs::remove(address.path);
  fs::create_directory(address.path);
  expect_refused(Status::exists, "not a socket");
  EXPECT_TRUE(fs::is_directory(address.path));

  fs::remove(address.path);
  fs::create_symlink("elsewhere", address.path);
  expect_refused(Status::exists, "not a socket");
  EXPECT_TRUE(fs::is_symlink(address.path));
  EXPECT_EQ(files(), 1);
}

TEST_F(NbdListener, NamesADirectoryThatIsMissing) {
  address.path = directory + "/none/s";
  expect_refused(Status::not_found, "directory '" + directory + "/none'");
}

TEST_F(NbdListener, TakesAwayOnlyItsOwnFile) {
  auto listener = Listener::open(address);
  ASSERT_TRUE(listener);
  fs::remove(address.path);
  std::ofstream(address.path) << "precious";
  listener->close();
  EXPECT_TRUE(fs::is_regular_file(address.path));
}

TEST_F(NbdListener, ALockFileLeftBehindDoesNoHarm) {
  std::ofstream(address.path + ".uzram-lock") << "";
  const auto listener = Listener::open(address);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(files(), 1);
}

TEST_F(NbdListener, WhileAnotherStartIsUnderWayThePathIsLeftAlone) {
  make_stale();
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(address.path.c_str(), &before), 0);
  {
    const base::Fd other(
        ::open((address.path + ".uzram-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
    expect_refused(Status::busy, "under way");
  }
  ASSERT_EQ(::stat(address.path.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_TRUE(Listener::open(address));
}

TEST_F(NbdListener, OfManyStartsOnAStalePathOneWins) {
  for (int round = 0; round < 50; ++round) {
    make_stale();
    constexpr std::size_t kStarts = 4;
    std::vector<std::optional<Listener>> won(kStarts);
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> starts;
    for (auto& place : won) {
      starts.emplace_back([&, this] {
        ++ready;
        while (ready < kStarts) std::this_thread::yield();
        auto listener = Listener::open(address);
        if (listener) place.emplace(std::move(*listener));
      });
    }
    for (std::thread& start : starts) start.join();
    std::size_t count = 0;
    for (const auto& place : won) count += place ? 1 : 0;
    ASSERT_EQ(count, 1U);
    ASSERT_TRUE(connects());  // and it is the winner's socket that stands there
    won.clear();
    ASSERT_EQ(files(), 0);
  }
}

TEST_F(NbdListener, TcpReportsThePortAndRefusesOneInUse) {
  address = {NbdAddress::Kind::tcp, "", "127.0.0.1", 0};
  const auto listener = Listener::open(address);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_NE(listener->address().port, 0);
  address.port = listener->address().port;
  expect_refused(Status::busy, "in use");
  address.host = "no-such-host.invalid";
  expect_refused(Status::not_found, "no-such-host.invalid");
}

}  // namespace
}  // namespace uzram::attach::nbd
