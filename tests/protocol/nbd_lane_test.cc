// Requests that wait for the backing store: answered later, out of order, never overtaken by a
// later overlapping one, and nobody waits behind them.
#include <map>
#include <thread>
#include <vector>

#include "attach/nbd/deferred.h"
#include "exec/slow_lane.h"
#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

constexpr std::uint32_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr unsigned kLaneThreads = exec::LaneLimits{}.threads_max;

class NbdLane : public NbdServerTest {
 protected:
  ~NbdLane() override {
    if (device) device->unblock();
  }
  Bytes stored(std::uint64_t offset, std::size_t length) const {
    Bytes bytes(length);
    EXPECT_EQ(device->read(offset, bytes), Status::ok);
    return bytes;
  }
  // `count` replies in the order in which they came; all structured, or none with data.
  static std::map<std::uint64_t, CommandReply> replies(NbdClient& client, std::size_t count) {
    std::map<std::uint64_t, CommandReply> all;
    for (std::size_t i = 0; i < count; ++i) {
      CommandReply reply = client.receive_reply();
      EXPECT_TRUE(reply.came);
      EXPECT_EQ(reply.error, 0U);
      all[reply.cookie] = std::move(reply);
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
};

TEST_F(NbdLane, ABlockedReadIsAnsweredLaterThanTheNext) {
  start();
  ASSERT_EQ(device->write(0, pattern(kPage, 1)), Status::ok);
  for (const bool structured : {false, true}) {
    NbdClient client = enter(structured), other = enter();
    device->block(0, kPage);
    nbd::Writer reads;
    reads.bytes(encode_command({.length = kPage, .cookie = 1}));
    reads.bytes(encode_command({.offset = 8192, .length = kPage, .cookie = 2}));
    ASSERT_TRUE(client.send(reads.view()));
    EXPECT_EQ(client.receive_reply(kPage).cookie, 2U);
    device->wait_until_waiting(1);
    EXPECT_EQ(client.command({.offset = 8192, .length = 1, .cookie = 3}).cookie, 3U);
    EXPECT_EQ(other.command({.offset = 8192, .length = 1, .cookie = 4}).cookie, 4U);
    device->unblock();
    const CommandReply late = client.receive_reply(kPage);
    EXPECT_EQ(late.cookie, 1U);
    EXPECT_EQ(late.structured, structured);
    EXPECT_EQ(late.data, pattern(kPage, 1));
  }
}

// Only half of the next message is there when the answer comes.
TEST_F(NbdLane, IsAnsweredInTheMiddleOfAMessage) {
  start();
  NbdClient client = enter();
  device->block(0, 1);
  const Bytes next = encode_command({.offset = kPage, .length = 1, .cookie = 2});
  nbd::Writer both;
  both.bytes(encode_command({.length = 1, .cookie = 1})).bytes(std::span(next).first(10));
  ASSERT_TRUE(client.send(both.view()));
  device->wait_until_waiting(1);
  device->unblock();
  EXPECT_EQ(client.receive_reply(1).cookie, 1U);
  ASSERT_TRUE(client.send(std::span(next).subspan(10)));
  EXPECT_EQ(client.receive_reply(1).cookie, 2U);
}

TEST_F(NbdLane, BeyondItsBoundTheConnectionWaitsAndOthersDoNot) {
  start();
  NbdClient client = enter(true), other = enter(true);
  device->block(0, kPage);
  constexpr std::size_t kReads = nbd::Deferred::kJobsMax + 1;
  nbd::Writer reads;
  for (std::size_t i = 0; i < kReads; ++i) {
    reads.bytes(encode_command({.length = 512, .cookie = i}));
  }
  reads.bytes(encode_command({.offset = 8192, .length = 512, .cookie = 99}));
  ASSERT_TRUE(client.send(reads.view()));
  EXPECT_EQ(client.receive_reply().cookie, 99U);  // of the same batch, so before the wait
  device->wait_until_waiting(kLaneThreads + 1);
  EXPECT_EQ(other.command({.offset = 8192, .length = 512, .cookie = 1}).cookie, 1U);
  device->unblock();
  EXPECT_EQ(replies(client, kReads).rbegin()->first, kReads - 1);
  EXPECT_EQ(client.command({.length = 512, .cookie = 7}).cookie, 7U);
}

TEST_F(NbdLane, BuffersAreBounded) {
  start(64 * kMiB);
  NbdClient client = enter(true);
  device->block(0, kPage);
  const auto length = static_cast<std::uint32_t>(20 * kMiB);
  for (const std::uint64_t cookie : {1U, 2U}) {
    ASSERT_TRUE(client.send(encode_command({.length = length, .cookie = cookie})));
  }
  device->wait_until_waiting(2);  // one of them the connection's own thread
  device->unblock();
  for (const auto& [cookie, reply] : replies(client, 2)) EXPECT_EQ(reply.data.size(), length);
}

TEST_F(NbdLane, NothingOvertakesAnOlderOverlappingChange) {
  for (const bool together : {true, false}) {
    start();
    NbdClient client = enter(true);
    device->block(0, 100);  // only the first write meets it
    std::vector<Bytes> messages;
    messages.push_back(
        encode_command({.type = nbd::kCmdWrite, .length = 512, .cookie = 1}, pattern(512, 1)));
    messages.push_back(encode_command(
        {.type = nbd::kCmdWrite, .offset = 256, .length = 512, .cookie = 2}, pattern(512, 2)));
    messages.push_back(
        encode_command({.type = nbd::kCmdTrim, .offset = 700, .length = 100, .cookie = 3}));
    messages.push_back(encode_command({.offset = 200, .length = 600, .cookie = 4}));
    messages.push_back(encode_command({.type = nbd::kCmdFlush, .cookie = 5}));
    messages.push_back(encode_command(
        {.type = nbd::kCmdWrite, .offset = 8192, .length = 9, .cookie = 6}, pattern(9, 6)));
    nbd::Writer all;
    for (const Bytes& message : messages) {
      all.bytes(message);
      EXPECT_TRUE(together || client.send(message));
    }
    EXPECT_TRUE(!together || client.send(all.view()));
    const auto at_once = replies(client, 2);
    EXPECT_EQ(at_once.begin()->first, 5U);
    EXPECT_EQ(at_once.rbegin()->first, 6U);
    device->wait_until_waiting(1);
    EXPECT_EQ(stored(256, 512), Bytes(512));
    device->unblock();
    const auto later = replies(client, 4);
    Bytes expected = pattern(512, 1);
    expected.resize(256);
    const Bytes second = pattern(512, 2);
    expected.insert(expected.end(), second.begin(), second.end());
    std::fill(expected.begin() + 700, expected.end(), std::byte{0});
    expected.resize(800);
    EXPECT_EQ(stored(0, 800), expected);
    EXPECT_EQ(later.at(4).data, Bytes(expected.begin() + 200, expected.end()));
    server.reset();
  }
}

TEST_F(NbdLane, AWriteKeepsItsBytesAndFuaFlushesAfterIt) {
  start();
  NbdClient client = enter();
  device->block(0, 1);
  ASSERT_TRUE(client.send(encode_command(
      {.type = nbd::kCmdWrite, .length = 100'000, .flags = nbd::kCmdFlagFua, .cookie = 1},
      pattern(100'000, 1))));
  device->wait_until_waiting(1);
  const std::uint64_t flushes = device->stats().flushes;
  // What came in the meantime has taken the input's place.
  EXPECT_EQ(client
                .command({.type = nbd::kCmdWrite, .offset = 500'000, .length = 200'000},
                         pattern(200'000, 2))
                .error,
            0U);
  device->unblock();
  EXPECT_EQ(client.receive_reply().cookie, 1U);
  EXPECT_EQ(stored(0, 100'000), pattern(100'000, 1));
  EXPECT_EQ(device->stats().flushes, flushes + 1);
}

TEST_F(NbdLane, ErrorsReachTheClient) {
  start();
  NbdClient client = enter(true);
  device->block(0, 1);
  ASSERT_TRUE(client.send(encode_command({.length = 512, .cookie = 1})));
  device->wait_until_waiting(1);
  device->fail_next(Op::read, Status::io_error);
  device->unblock();
  const CommandReply reply = client.receive_reply();
  EXPECT_EQ(reply.error, kEio);
  EXPECT_EQ(reply.cookie, 1U);
}

TEST_F(NbdLane, BlockStatusComesAfterAnOverlappingChange) {
  start();
  NbdClient client = enter(true, true);
  device->block(0, 1);
  ASSERT_TRUE(client.send(
      encode_command({.type = nbd::kCmdWrite, .length = kPage, .cookie = 1}, Bytes(kPage))));
  device->wait_until_waiting(1);
  ASSERT_TRUE(client.send(
      encode_command({.type = nbd::kCmdBlockStatus, .length = 2 * kPage, .cookie = 2})));
  device->unblock();
  const auto both = replies(client, 2);
  ASSERT_EQ(both.at(2).data.size(), 4U + 2U * 8U);  // a written page and one that isn't
}

TEST_F(NbdLane, AClientThatLeavesIsWaitedFor) {
  for (const bool says_so : {true, false}) {
    start();
    NbdClient client = enter();
    device->block(0, 1);
    nbd::Writer commands;
    for (std::uint64_t i = 0; i < 4; ++i) {
      commands.bytes(
          encode_command({.type = nbd::kCmdWrite, .length = 512, .cookie = i}, pattern(512, i)));
    }
    if (says_so) commands.bytes(encode_command({.type = nbd::kCmdDisc}));
    ASSERT_TRUE(client.send(commands.view()));
    device->wait_until_waiting(1);
    if (!says_so) client.half_close();  // what it has sent is received still
    EXPECT_EQ(server->clients(), 1U);
    device->unblock();
    replies(client, 4);
    EXPECT_TRUE(client.at_end());
    while (server->clients() > 0) std::this_thread::yield();
    EXPECT_EQ(stored(0, 512), pattern(512, 3));
    server.reset();
  }
}

TEST_F(NbdLane, AClientThatVanishes) {
  start();
  NbdClient client = enter();
  device->block(0, 1);
  nbd::Writer commands;
  for (std::uint64_t i = 0; i < nbd::Deferred::kJobsMax; ++i) {
    commands.bytes(encode_command({.length = 100'000, .cookie = i}));
  }
  ASSERT_TRUE(client.send(commands.view()));
  device->wait_until_waiting(kLaneThreads);
  client.close();
  EXPECT_EQ(server->clients(), 1U);
  device->unblock();
  while (server->clients() > 0) std::this_thread::yield();
  EXPECT_EQ(enter().command({.length = 1}).error, 0U);
}

TEST_F(NbdLane, StopWaitsForWhatIsInTheLane) {
  for (const bool force : {false, true}) {
    options.drain_time = std::chrono::minutes(5);
    start();
    NbdClient client = enter(), idle = enter();
    device->block(0, 1);
    nbd::Writer commands;
    commands.bytes(
        encode_command({.type = nbd::kCmdWrite, .length = 512, .cookie = 1}, pattern(512, 1)));
    commands.bytes(encode_command({.type = nbd::kCmdWrite, .offset = 1, .length = 9, .cookie = 2},
                                  pattern(9, 2)));
    ASSERT_TRUE(client.send(commands.view()));
    device->wait_until_waiting(1);
    std::thread stop([&] { EXPECT_TRUE(server->stop(force)); });
    EXPECT_TRUE(idle.at_end());  // so it has begun
    device->unblock();
    stop.join();
    if (!force) {
      replies(client, 2);
      EXPECT_TRUE(client.at_end());
    }
    EXPECT_EQ(stored(0, 1), Bytes(1, pattern(512, 1)[0]));
    server.reset();
  }
}

}  // namespace
}  // namespace uzram::test
