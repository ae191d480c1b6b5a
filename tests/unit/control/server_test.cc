#include "control/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "control/client.h"
#include "control/json_rpc.h"
#include "control/methods.h"
#include "control/unix_socket.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/fake_host.h"

namespace uzram::control {
namespace {

constexpr int kPatienceMs = 20'000;  // how long a wait that should succeed may take
constexpr const char* kInfo = R"({"jsonrpc":"2.0","id":1,"method":"device.info"})";

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
  static void send(const base::Fd& socket, std::string_view bytes) {
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // One line without its newline; empty where the peer closed.
  static std::string receive(const base::Fd& socket) {
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

TEST_F(ServerTest, StopDoesNotWaitForASlowHandlerForEver) {
  base::Mutex mutex;
  base::CondVar changed;
  bool entered = false;
  bool leave = false;
  const std::string path = temp_.path() + "/slow.sock";
  auto slow = Server::start(path, [&](std::string_view) {
                const base::MutexLock lock(mutex);
                entered = true;
                changed.notify_all();
                while (!leave) changed.wait(mutex);
                return std::string();
              }).value();
  const auto address = unix_address(path).value();
  const base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  send(socket, "x\n");
  {
    const base::MutexLock lock(mutex);
    while (!entered) changed.wait(mutex);
  }
  EXPECT_FALSE(slow->stop(std::chrono::milliseconds(50)));
  {
    const base::MutexLock lock(mutex);
    leave = true;
    changed.notify_all();
  }
  EXPECT_TRUE(slow->stop(std::chrono::milliseconds(kPatienceMs)));
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

class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("UZRAM_RUNTIME_DIR", (temp_.path() + "/run").c_str(), 1);
    dir_.emplace(RuntimeDir::create().value());
  }
  void TearDown() override { ::unsetenv("UZRAM_RUNTIME_DIR"); }

  test::TempDir temp_;
  std::optional<RuntimeDir> dir_;
};

TEST_F(ClientTest, TellsWhyNobodyAnswers) {
  EXPECT_EQ(Client::connect(*dir_, "a").error().status, Status::not_found);
  std::ofstream(dir_->files("a").lock) << "";
  const auto dead = Client::connect(*dir_, "a");
  EXPECT_EQ(dead.error().status, Status::io_error);
  EXPECT_NE(dead.error().message.find("dead"), std::string::npos);
  const auto lock = DeviceLock::take(*dir_, "a");
  ASSERT_TRUE(lock.has_value());
  EXPECT_EQ(Client::connect(*dir_, "a").error().status, Status::busy);
}

TEST_F(ClientTest, CallsAndHearsTheEnd) {
  test::FakeHost host;
  auto server = Server::start(dir_->files("a").socket, [&host](std::string_view line) {
                  return answer(host, line);
                }).value();
  auto client = Client::connect(*dir_, "a");
  ASSERT_TRUE(client.has_value()) << client.error().message;
  EXPECT_EQ(client->call("device.get", {{"name", "initstate"}}).value(), "1");
  EXPECT_EQ(client->call("device.get", {{"name", "x\xff\n"}}).error().status,
            Status::invalid_argument);
  EXPECT_EQ(client->call("device.get", {{"name", std::string(kLineBytesMax, 'x')}}).error().status,
            Status::invalid_argument);
  EXPECT_FALSE(client->wait_for_end(std::chrono::milliseconds(0)));
  server.reset();
  EXPECT_TRUE(client->wait_for_end(std::chrono::milliseconds(kPatienceMs)));
  EXPECT_EQ(client->call("device.info", nlohmann::json::object()).has_value(), false);
}

}  // namespace
}  // namespace uzram::control
