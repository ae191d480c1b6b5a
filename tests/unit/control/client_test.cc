#include "control/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "control/json_rpc.h"
#include "control/methods.h"
#include "control/server.h"
#include "control/unix_socket.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/fake_host.h"

namespace uzram::control {
namespace {

constexpr int kPatienceMs = 20'000;  // how long a wait that should succeed may take

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

TEST_F(ClientTest, APassMayTakeAsLongAsTheProcessIsAlive) {
  base::Mutex mutex;
  base::CondVar changed;
  int asked = 0;
  // The pass ends only after the client has asked twice whether the process is alive.
  auto server = Server::start(dir_->files("a").socket, [&](std::string_view line) {
                  const base::MutexLock lock(mutex);
                  if (line.find("compact") == std::string_view::npos) {
                    ++asked;
                    changed.notify_all();
                  } else {
                    while (asked < 2) changed.wait(mutex);
                  }
                  return std::string(R"({"jsonrpc":"2.0","id":1,"result":true})");
                }).value();
  auto client = Client::connect(*dir_, "a", std::chrono::milliseconds(1000));
  ASSERT_TRUE(client.has_value()) << client.error().message;
  EXPECT_TRUE(client->call("device.set", {{"name", "compact"}, {"value", "1"}}).has_value());
}

TEST_F(ClientTest, WhoHangsIsNotWaitedForForEver) {
  const auto address = unix_address(dir_->files("a").socket).value();
  const base::Fd mute(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(mute.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(mute.get(), 4), 0);
  constexpr std::chrono::milliseconds kPatience{50};
  std::vector<Client> clients;
  for (const char* name : {"mm_stat", "compact"}) {
    auto client = Client::connect(*dir_, "a", kPatience);
    ASSERT_TRUE(client.has_value());
    const auto answer = client->call("device.set", {{"name", name}, {"value", "1"}});
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().status, Status::io_error) << name;
    clients.push_back(std::move(*client));
  }
  // Nor does connecting to one that takes nobody in any more.
  bool refused = false;
  for (int i = 0; i < 10 && !refused; ++i) {
    auto client = Client::connect(*dir_, "a", kPatience);
    refused = !client && client.error().status == Status::io_error;
    if (client) clients.push_back(std::move(*client));
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace uzram::control
