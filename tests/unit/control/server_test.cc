#include "control/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "control/json_rpc.h"
#include "control/methods.h"
#include "control/unix_socket.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/fake_host.h"

namespace uzram::control {
namespace {

constexpr int kPatienceMs = 20'000;  // how long a wait that should succeed may take
constexpr const char* kInfo = R"({"jsonrpc":"2.0","id":1,"method":"device.info"})";

void send(const base::Fd& socket, std::string_view bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// One line without its newline; empty where the peer closed.
std::string receive(const base::Fd& socket) {
  std::string line;
  for (;;) {
    pollfd polled = {socket.get(), POLLIN, 0};
    if (::poll(&polled, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "no answer";
      return "";
    }
    char c = 0;
    if (::recv(socket.get(), &c, 1, 0) != 1) return "";
    if (c == '\n') return line;
    line += c;
  }
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server =
        Server::start(path_, [this](std::string_view line) { return answer(host_, line); });
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
  }

  base::Fd connect() const {
    const auto address = unix_address(path_).value();
    base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return socket;
  }
  static bool is_result(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    return json.is_object() && json.contains("result");
  }

  test::TempDir temp_;
  const std::string path_ = temp_.path() + "/a.sock";
  test::FakeHost host_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ServesItsUserAlone) {
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(ServerTest, AnswersLinesHoweverTheyArrive) {
  const base::Fd socket = connect();
  const std::string line = std::string(kInfo) + "\n";
  send(socket, line);
  EXPECT_TRUE(is_result(receive(socket)));
  for (const char c : line) send(socket, std::string_view(&c, 1));
  EXPECT_TRUE(is_result(receive(socket)));
  send(socket, line + line + "nonsense\n" + line);
  EXPECT_TRUE(is_result(receive(socket)));
  EXPECT_TRUE(is_result(receive(socket)));
  EXPECT_FALSE(is_result(receive(socket)));
  EXPECT_TRUE(is_result(receive(socket)));
}

TEST_F(ServerTest, ALineWithoutEndCostsOneConnection) {
  const base::Fd other = connect();
  const base::Fd socket = connect();
  std::string sent;
  // Sends until the server has had enough of it.
  const std::string block(4096, 'x');
  while (sent.size() < 16 * kLineBytesMax) {
    if (::send(socket.get(), block.data(), block.size(), MSG_NOSIGNAL) < 0) break;
    sent += block;
  }
  EXPECT_LT(sent.size(), 16 * kLineBytesMax);
  send(other, std::string(kInfo) + "\n");
  EXPECT_TRUE(is_result(receive(other)));
}

TEST_F(ServerTest, SilentClientsMakeRoomForNewOnes) {
  std::vector<base::Fd> silent;
  for (std::size_t i = 0; i < 3 * Server::kClientsMax; ++i) {
    silent.push_back(connect());
    if (i % 2 == 0) send(silent.back(), "{\"half");
  }
  const base::Fd socket = connect();
  send(socket, std::string(kInfo) + "\n");
  EXPECT_TRUE(is_result(receive(socket)));
  EXPECT_EQ(receive(silent.front()), "") << "the one that was silent longest is to go first";
}

TEST_F(ServerTest, ABusyClientIsNotTheOneToGo) {
  const base::Fd busy = connect();
  std::vector<base::Fd> silent;
  for (std::size_t i = 0; i < 3 * Server::kClientsMax; ++i) {
    send(busy, std::string(kInfo) + "\n");
    ASSERT_TRUE(is_result(receive(busy))) << i;
    silent.push_back(connect());
    send(silent.back(), std::string(kInfo) + "\n");
    ASSERT_TRUE(is_result(receive(silent.back()))) << i;
  }
}

TEST_F(ServerTest, WhoDoesNotReadIsNotServedFurther) {
  const base::Fd deaf = connect();
  const base::Fd other = connect();
  // Far more replies than any socket buffer holds: the server must stop reading, not grow.
  std::string many;
  for (int i = 0; i < 500; ++i) many += std::string(kInfo) + "\n";
  std::size_t sent = 0;
  for (int idle = 0; idle < 3 && sent < (64U << 20);) {
    const ssize_t done = ::send(deaf.get(), many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) sent += static_cast<std::size_t>(done);
    if (done > 0) continue;
    // Once the other client was answered, the server has looked at the deaf one's input, too.
    send(other, std::string(kInfo) + "\n");
    ASSERT_TRUE(is_result(receive(other)));
    ++idle;
  }
  EXPECT_LT(sent, 64U << 20);
}

TEST_F(ServerTest, StopKeepsClientsUntilTheEnd) {
  const base::Fd socket = connect();
  send(socket, std::string(kInfo) + "\n");
  ASSERT_TRUE(is_result(receive(socket)));
  EXPECT_TRUE(server_->stop(std::chrono::milliseconds(kPatienceMs)));
  pollfd polled = {socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
  server_.reset();
  EXPECT_EQ(receive(socket), "");
}

// Answers "slow" lines when it is told to, all others at once, each with its own text.
class SlowServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = Server::start(path_, [this](std::string_view line) { return handle(line); });
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
  }
  void TearDown() override { let_go(); }

  std::string handle(std::string_view line) {
    const base::MutexLock lock(mutex_);
    if (line == "slow") {
      ++waiting_;
      changed_.notify_all();
      while (!released_) changed_.wait(mutex_);
      --waiting_;
    }
    return std::string(line);
  }
  void wait_for_slow(unsigned count) {
    const base::MutexLock lock(mutex_);
    while (waiting_ < count) changed_.wait(mutex_);
  }
  void let_go() {
    const base::MutexLock lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  base::Fd ask(std::string_view line) const {
    const auto address = unix_address(path_).value();
    base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    send(socket, line);
    return socket;
  }

  test::TempDir temp_;
  const std::string path_ = temp_.path() + "/slow.sock";
  base::Mutex mutex_;
  base::CondVar changed_;
  unsigned waiting_ UZRAM_GUARDED_BY(mutex_) = 0;
  bool released_ UZRAM_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Server> server_;
};

TEST_F(SlowServerTest, ASlowAnswerHoldsUpNobodyElse) {
  const base::Fd slow = ask("slow\nafter\n");
  wait_for_slow(1);
  const base::Fd other = ask("other\n");
  EXPECT_EQ(receive(other), "other");
  // Nor is who waits for it the one to make room.
  std::vector<base::Fd> silent;
  for (std::size_t i = 0; i < 2 * Server::kClientsMax; ++i) {
    silent.push_back(ask("x\n"));
    ASSERT_EQ(receive(silent.back()), "x");
  }
  let_go();
  EXPECT_EQ(receive(slow), "slow");
  EXPECT_EQ(receive(slow), "after");
}

TEST_F(SlowServerTest, WhileAllWaitForAnswersANewcomerWaitsToo) {
  std::vector<base::Fd> slow;
  for (unsigned i = 1; i <= Server::kClientsMax; ++i) {
    slow.push_back(ask("slow\n"));
    wait_for_slow(i);
  }
  const base::Fd newcomer = ask("new\n");
  let_go();
  EXPECT_EQ(receive(newcomer), "new");
}

TEST_F(SlowServerTest, StopDoesNotWaitForASlowHandlerForEver) {
  const base::Fd slow = ask("slow\n");
  wait_for_slow(1);
  EXPECT_FALSE(server_->stop(std::chrono::milliseconds(50)));
  let_go();
  EXPECT_TRUE(server_->stop(std::chrono::milliseconds(kPatienceMs)));
  EXPECT_EQ(receive(slow), "slow") << "an answer that was under way is sent";
}

TEST(ServerStart, ReplacesAStaleSocketAndNothingElse) {
  const test::TempDir temp;
  const auto handler = [](std::string_view) { return std::string(); };
  const std::string path = temp.path() + "/a.sock";
  {
    const base::Fd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = unix_address(path).value();
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_TRUE(Server::start(path, handler).has_value());
  const std::string file = temp.path() + "/file";
  std::ofstream(file) << "kept";
  EXPECT_EQ(Server::start(file, handler).error().status, Status::exists);
  EXPECT_EQ(Server::start(temp.path() + "/no/such", handler).error().status, Status::not_found);
  const auto too_long = Server::start(temp.path() + "/" + std::string(100, 'x'), handler);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().status, Status::invalid_argument);
  EXPECT_NE(too_long.error().message.find("107"), std::string::npos);
}

}  // namespace
}  // namespace uzram::control
