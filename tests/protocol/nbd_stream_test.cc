// Requests as a stream: large ones, many in flight, cut at any place, ended in any way.
#include <random>
#include <thread>

#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdStream = NbdServerTest;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Bytes read_device(FakeDevice& device, std::uint64_t offset, std::size_t length) {
  Bytes bytes(length);
  EXPECT_EQ(device.read(offset, bytes), Status::ok);
  return bytes;
}

TEST_F(NbdStream, ARefusedWritesPayloadIsConsumed) {
  start(4 * kMiB, true);
  NbdClient client = enter();
  // Short ones come whole, long ones are drained piece by piece.
  for (const std::uint32_t length : {1U, 512U, 65536U, 65537U, 300000U, 4U << 20}) {
    const Bytes data = pattern(length, length);
    EXPECT_EQ(client.command({.type = nbd::kCmdWrite, .length = length}, data).error, kEperm);
    EXPECT_EQ(
        client.command({.type = nbd::kCmdWrite, .length = length, .flags = 0x8000}, data).error,
        kEinval);
  }
  EXPECT_EQ(client.command({.type = nbd::kCmdTrim, .length = 4096}).error, kEperm);
  EXPECT_EQ(client.command({.type = nbd::kCmdWriteZeroes, .length = 4096}).error, kEperm);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush}).error, 0U);
  EXPECT_EQ(client.command({.length = 4096}).data, Bytes(4096));
}

TEST_F(NbdStream, LargeRequestsUpToTheMaximumAndErrorsAboveIt) {
  constexpr std::uint32_t kMax = 32U << 20;
  constexpr std::uint64_t kSize = 66 * kMiB;
  start(kSize);
  NbdClient client = enter(true);
  const Bytes data = pattern(kMax, 5);
  for (const std::uint32_t length : {1U << 20, kMax - 512, kMax, kMax + 1, 64U << 20}) {
    for (const std::uint64_t offset : {std::uint64_t{4095}, kSize - length}) {
      Bytes payload(data.begin(), data.begin() + std::min(length, kMax));
      payload.resize(length);
      const std::uint32_t error = length <= kMax ? 0 : kEinval;
      const Command write{.type = nbd::kCmdWrite, .offset = offset, .length = length};
      EXPECT_EQ(client.command(write, payload).error, error) << length;
      const CommandReply read = client.command({.offset = offset, .length = length});
      EXPECT_EQ(read.error, error) << length;
      EXPECT_TRUE(same(read.data, error == 0 ? payload : Bytes())) << length << " at " << offset;
    }
  }
  // Lengths without a payload know no such bound.
  EXPECT_EQ(client.command({.type = nbd::kCmdWriteZeroes, .length = kSize}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdTrim, .length = kSize}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdCache, .length = kSize}).error, 0U);
}

TEST_F(NbdStream, TheLongestRefusedWriteIsConsumedInBoundedMemory) {
  start();
  NbdClient client = enter();
  constexpr std::uint32_t kLength = 256U << 20;
  ASSERT_TRUE(
      client.send(encode_command({.type = nbd::kCmdWrite, .length = kLength, .cookie = 1})));
  const Bytes piece(1 << 20);
  for (std::uint32_t sent = 0; sent < kLength; sent += 1U << 20) ASSERT_TRUE(client.send(piece));
  EXPECT_EQ(client.receive_reply().error, kEinval);
  EXPECT_EQ(client.command({.length = 1}).error, 0U);
}

TEST_F(NbdStream, TheSameCookieMayBeInFlightTwice) {
  start();
  NbdClient client = enter();
  nbd::Writer both;
  both.bytes(encode_command({.type = nbd::kCmdWrite, .length = 1, .cookie = 6}, bytes_of("a")));
  both.bytes(encode_command({.length = 1, .cookie = 6}));
  ASSERT_TRUE(client.send(both.view()));
  EXPECT_EQ(client.receive_reply().cookie, 6U);
  const CommandReply read = client.receive_reply(1);
  EXPECT_EQ(read.cookie, 6U);
  EXPECT_EQ(read.data, bytes_of("a"));
}

TEST_F(NbdStream, AWrongMagicEndsTheConnectionAlone) {
  start();
  NbdClient client = enter(), other = enter();
  Bytes message = encode_command({.length = 1});
  message[0] = std::byte{0};
  ASSERT_TRUE(client.send(message));
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(other.command({.length = 1}).error, 0U);
}

TEST_F(NbdStream, DisconnectKeepsWhatCameBefore) {
  start();
  NbdClient client = enter();
  nbd::Writer writes;
  constexpr std::uint32_t kWrites = 200;
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    const std::uint64_t offset = std::uint64_t{i} * 4096;
    writes.bytes(encode_command({.type = nbd::kCmdWrite, .offset = offset, .length = 4096},
                                pattern(4096, i)));
  }
  writes.bytes(encode_command({.type = nbd::kCmdDisc}));
  ASSERT_TRUE(client.send(writes.view()));
  for (std::uint32_t i = 0; i < kWrites; ++i) EXPECT_TRUE(client.receive_reply().came);
  EXPECT_TRUE(client.at_end());
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    EXPECT_EQ(read_device(*device, std::uint64_t{i} * 4096, 4096), pattern(4096, i));
  }
}

TEST_F(NbdStream, AHalfClosedClientGetsAllItsReplies) {
  start();
  NbdClient client = enter();
  nbd::Writer reads;
  for (int i = 0; i < 100; ++i) reads.bytes(encode_command({.length = 4096}));
  ASSERT_TRUE(client.send(reads.view()));
  client.half_close();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive_reply(4096).data.size(), 4096U);
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdStream, AWriteThatIsCutOffChangesNothing) {
  start();
  for (const std::uint32_t length : {4096U, 500000U}) {
    NbdClient client = enter();
    const Bytes half = pattern(length / 2, 7);
    ASSERT_TRUE(client.send(encode_command({.type = nbd::kCmdWrite, .length = length}, half)));
    client.half_close();
    EXPECT_TRUE(client.at_end());
  }
  EXPECT_EQ(read_device(*device, 0, kMiB), Bytes(kMiB));
}

// Many requests in flight, cut at random places of the stream, against a flat array.
TEST_F(NbdStream, PipelinedRequestsAreRunInOrder) {
  constexpr std::uint32_t kSize = 3U << 20;
  for (const bool structured : {false, true}) {
    start(kSize);
    NbdClient client = enter(structured);
    Bytes model(kSize);
    std::mt19937 random(structured ? 1 : 2);
    const std::uint32_t lengths[] = {1, 512, 4096, 4096, 4096, 65536, 70000, 262144, 1048576};
    for (int round = 0; round < 24; ++round) {
      Bytes stream;
      std::vector<std::pair<Command, Bytes>> sent;  // with what a read must return
      const auto depth = static_cast<std::uint32_t>(1 + random() % 100);
      for (std::uint32_t i = 0; i < depth && stream.size() < (4U << 20); ++i) {
        Command command{.cookie = i};
        command.length = lengths[random() % (round % 2 == 0 ? 5 : 9)];
        command.offset = random() % (kSize - command.length);
        const auto at = model.begin() + static_cast<std::ptrdiff_t>(command.offset);
        Bytes expected, payload;
        switch (random() % 8) {
          case 0:
          case 1:
          case 2:
            command.type = nbd::kCmdWrite;
            command.flags = random() % 4 == 0 ? nbd::kCmdFlagFua : 0;
            payload = pattern(command.length, random());
            std::copy(payload.begin(), payload.end(), at);
            break;
          case 3:
            command.type = nbd::kCmdTrim;
            std::fill_n(at, command.length, std::byte{0});
            break;
          case 4:
            command.type = nbd::kCmdFlush;
            command.offset = command.length = 0;
            break;
          default:
            command.type = nbd::kCmdRead;
            expected.assign(at, at + command.length);
        }
        const Bytes message = encode_command(command, payload);
        stream.insert(stream.end(), message.begin(), message.end());
        sent.emplace_back(command, std::move(expected));
      }
      // A second thread sends, as clients with deep queues do: neither side may wait for the other.
      std::thread sender([&client, &stream, seed = random()] {
        std::mt19937 cut(seed);
        for (std::size_t done = 0; done < stream.size();) {
          const std::size_t piece = std::min<std::size_t>(stream.size() - done, 1 + cut() % 300000);
          if (!client.send(std::span(stream).subspan(done, piece))) break;
          done += piece;
        }
      });
      for (const auto& [command, expected] : sent) {
        const bool read = command.type == nbd::kCmdRead;
        const CommandReply reply = client.receive_reply(read ? command.length : 0);
        ASSERT_TRUE(reply.came);
        EXPECT_EQ(reply.cookie, command.cookie);
        EXPECT_EQ(reply.error, 0U);
        EXPECT_TRUE(same(reply.data, expected)) << "length " << command.length;
      }
      sender.join();
    }
    EXPECT_TRUE(same(read_device(*device, 0, kSize), model));
    server.reset();
  }
}

}  // namespace
}  // namespace uzram::test
