// stop(): it ends in time whatever clients do, keeps what was received, leaves nothing behind.
#include <chrono>
#include <vector>

#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdShutdown = NbdServerTest;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSoon{4};

TEST_F(NbdShutdown, EndsInTimeWithClientsAtEveryPointOfTheProtocol) {
  start();
  server.reset();  // a first round, for what the process itself opens once
  const long files = open_files(), tasks = threads();
  start(8 << 20);
  std::vector<NbdClient> clients;
  const Bytes handshake =
      bytes_of(nbd::Writer().number(3U).bytes(encode_option(nbd::kOptGo, encode_go("disk0"))));
  for (std::size_t length = 0; length < handshake.size(); ++length) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().send(std::span(handshake).first(length)));
  }
  clients.push_back(enter());                               // at rest
  for (const std::size_t payload : {0U, 1000U, 250000U}) {  // in the middle of a write
    clients.push_back(enter());
    ASSERT_TRUE(clients.back().send(
        encode_command({.type = nbd::kCmdWrite, .length = 500000}, Bytes(payload))));
  }
  clients.push_back(enter());  // doesn't read
  nbd::Writer reads;
  for (int i = 0; i < 64; ++i) reads.bytes(encode_command({.length = 8 << 20}));
  ASSERT_TRUE(clients.back().send(reads.view()));

  const auto begin = Clock::now();
  EXPECT_TRUE(server->stop(false));
  EXPECT_LT(Clock::now() - begin, kSoon);
  EXPECT_FALSE(std::filesystem::exists(options.address.path));
  EXPECT_EQ(server->clients(), 0U);
  EXPECT_EQ(threads(), tasks);
  EXPECT_TRUE(server->stop(false));
  clients.clear();
  server.reset();
  EXPECT_EQ(open_files(), files);
}

TEST_F(NbdShutdown, HeldItTakesNobodyInUntilItIsReleased) {
  start();
  {
    NbdClient client = enter();
    const auto held = server->hold();
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().status, Status::busy);
    EXPECT_NE(held.error().message.find("1 client is connected"), std::string::npos);
    ASSERT_TRUE(client.send(encode_command({.type = nbd::kCmdDisc})));
    EXPECT_TRUE(client.at_end());
  }
  ASSERT_TRUE(server->hold());
  NbdClient newcomer = connect();
  ASSERT_TRUE(newcomer.greet());
  ASSERT_TRUE(newcomer.send(encode_option(nbd::kOptGo, encode_go("disk0"))));
  EXPECT_EQ(server->clients(), 0U);
  server->release();
  OptionReply reply = newcomer.receive_option_reply();
  while (reply.type == nbd::kRepInfo) reply = newcomer.receive_option_reply();
  EXPECT_EQ(reply.type, nbd::kRepAck);
  EXPECT_EQ(server->clients(), 1U);
  EXPECT_FALSE(server->hold());
}

TEST_F(NbdShutdown, EndsWhileItIsHeld) {
  start();
  ASSERT_TRUE(server->hold());
  NbdClient waiting = connect();
  ASSERT_TRUE(waiting.greet());
  ASSERT_TRUE(waiting.send(encode_option(nbd::kOptGo, encode_go("disk0"))));
  EXPECT_TRUE(server->stop(false));
}

TEST_F(NbdShutdown, WithForceNobodyIsWaitedFor) {
  options.drain_time = std::chrono::hours(1);
  start(8 << 20);
  NbdClient deaf = enter();
  nbd::Writer reads;
  for (int i = 0; i < 64; ++i) reads.bytes(encode_command({.length = 8 << 20}));
  ASSERT_TRUE(deaf.send(reads.view()));
  const auto begin = Clock::now();
  EXPECT_TRUE(server->stop(true));
  EXPECT_LT(Clock::now() - begin, kSoon);
}

TEST_F(NbdShutdown, OnlyClientsThatDoNotReadAreWaitedFor) {
  options.drain_time = std::chrono::minutes(1);
  start();
  NbdClient resting = enter(), silent = connect(), halfway = enter();
  EXPECT_EQ(silent.receive(18).size(), 18U);
  ASSERT_TRUE(halfway.send(encode_command({.type = nbd::kCmdWrite, .length = 500000}, Bytes(9))));
  const auto begin = Clock::now();
  EXPECT_TRUE(server->stop(false));
  EXPECT_LT(Clock::now() - begin, kSoon);
  EXPECT_TRUE(resting.at_end());
}

TEST_F(NbdShutdown, WhatWasReceivedIsDoneAndAnswered) {
  start();
  NbdClient client = enter();
  // In the server's socket before it stops; more than one batch.
  nbd::Writer writes;
  for (std::uint64_t i = 0; i < 100; ++i) {
    writes.bytes(encode_command(
        {.type = nbd::kCmdWrite, .offset = i * 512, .length = 512, .cookie = i}, pattern(512, i)));
  }
  ASSERT_TRUE(client.send(writes.view()));
  ASSERT_TRUE(server->stop(false));
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(client.receive_reply().cookie, i);
    Bytes stored(512);
    EXPECT_EQ(device->read(i * 512, stored), Status::ok);
    EXPECT_EQ(stored, pattern(512, i));
  }
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdShutdown, TheSamePathServesAgainAtOnce) {
  for (int i = 0; i < 20; ++i) {
    start();
    NbdClient client = enter();
    EXPECT_EQ(client.command({.length = 1}).error, 0U);
    server.reset();
    EXPECT_TRUE(client.at_end());
    EXPECT_FALSE(connect().connected());
  }
}

TEST_F(NbdShutdown, OverTcpToo) {
  options.address = {attach::NbdAddress::Kind::tcp, "", "127.0.0.1", 0};
  start();
  const std::string where = server->where();
  ASSERT_EQ(where.rfind("nbd://127.0.0.1:", 0), 0U) << where;
  const auto port = static_cast<std::uint16_t>(std::stoi(where.substr(16)));
  NbdClient client(port), silent(port);
  ASSERT_TRUE(client.enter(true));
  EXPECT_EQ(client.command({.type = nbd::kCmdWrite, .length = 3}, bytes_of("abc")).error, 0U);
  EXPECT_EQ(client.command({.length = 3}).data, bytes_of("abc"));
  ASSERT_TRUE(client.send(encode_command({.length = 3, .cookie = 9})));
  EXPECT_EQ(client.receive_reply().cookie, 9U);
  ASSERT_TRUE(server->stop(false));
  EXPECT_TRUE(client.at_end());
  EXPECT_FALSE(NbdClient(port).connected());
}

}  // namespace
}  // namespace uzram::test
