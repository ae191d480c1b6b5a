// Commands and their replies: what each does, and what wrong ones get.
#include <initializer_list>
#include <random>
#include <thread>

#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdTransmission = NbdServerTest;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Bytes read_device(FakeDevice& device, std::uint64_t offset, std::size_t length) {
  Bytes bytes(length);
  EXPECT_EQ(device.read(offset, bytes), Status::ok);
  return bytes;
}

TEST_F(NbdTransmission, WhatIsWrittenIsReadOnEveryConnection) {
  start();
  NbdClient one = enter(), other = enter(true);
  const Bytes data = pattern(10000, 1);
  EXPECT_EQ(one.command({.type = nbd::kCmdWrite, .offset = 4090, .length = 10000}, data).error, 0U);
  EXPECT_EQ(other.command({.offset = 4090, .length = 10000}).data, data);
  EXPECT_EQ(one.command({.offset = 4090, .length = 10000}).data, data);
  EXPECT_EQ(other.command({.type = nbd::kCmdTrim, .offset = 5000, .length = 100}).error, 0U);
  EXPECT_EQ(one.command({.offset = 5000, .length = 100}).data, Bytes(100));
  EXPECT_EQ(one.command({.type = nbd::kCmdFlush}).error, 0U);
  EXPECT_EQ(server->clients(), 2U);
}

TEST_F(NbdTransmission, StructuredRepliesForReadsSimpleOnesForTheRest) {
  start();
  NbdClient client = enter(true);
  const Bytes data = pattern(64 << 10, 2);
  const CommandReply write = client.command(
      {.type = nbd::kCmdWrite, .length = 64 << 10, .cookie = 0xfedcba9876543210}, data);
  EXPECT_FALSE(write.structured);
  EXPECT_EQ(write.cookie, 0xfedcba9876543210U);
  for (const std::uint16_t flags : std::initializer_list<std::uint16_t>{0, 4}) {  // 4: DF
    const CommandReply read =
        client.command({.offset = 1, .length = (64 << 10) - 1, .flags = flags, .cookie = 9});
    EXPECT_TRUE(read.structured);
    EXPECT_EQ(read.type, 1U);
    EXPECT_EQ(read.flags, 1U);
    EXPECT_EQ(read.cookie, 9U);
    EXPECT_EQ(read.offset, 1U);
    EXPECT_EQ(read.data, Bytes(data.begin() + 1, data.end()));
  }
  device->fail_next(Op::read, Status::io_error);
  const CommandReply failed = client.command({.length = 4096, .cookie = 10});
  EXPECT_TRUE(failed.structured);
  EXPECT_EQ(failed.type, 32769U);
  EXPECT_EQ(failed.flags, 1U);
  EXPECT_EQ(failed.error, kEio);
  const CommandReply past = client.command({.offset = kMiB, .length = 1, .cookie = 11});
  EXPECT_TRUE(past.structured);
  EXPECT_EQ(past.error, kEinval);
  const CommandReply nothing = client.command({.length = 0, .cookie = 12});
  EXPECT_TRUE(nothing.structured);
  EXPECT_EQ(nothing.type, 0U);
  EXPECT_EQ(nothing.error, 0U);
}

TEST_F(NbdTransmission, DontFragmentNeedsStructuredReplies) {
  start();
  NbdClient client = enter(false);
  EXPECT_EQ(client.command({.length = 512, .flags = nbd::kCmdFlagDf}).error, kEinval);
  EXPECT_EQ(client.command({.length = 512}).data.size(), 512U);
}

TEST_F(NbdTransmission, PastTheEnd) {
  constexpr std::uint64_t kSize = kMiB + 513;
  start(kSize);
  NbdClient client = enter(true, true);
  const struct {
    std::uint64_t offset;
    std::uint32_t length;
  } ranges[] = {{kSize, 1},
                {kSize - 1, 2},
                {kSize + 1, 0},
                {0, kSize + 1},
                {UINT64_MAX, 512},
                {UINT64_MAX - 511, 512},
                {std::uint64_t{1} << 63, 4096}};
  for (const auto& range : ranges) {
    for (const auto& [type, error] :
         {std::pair{nbd::kCmdRead, kEinval}, std::pair{nbd::kCmdWrite, kEnospc},
          std::pair{nbd::kCmdTrim, kEinval}, std::pair{nbd::kCmdWriteZeroes, kEnospc},
          std::pair{nbd::kCmdCache, kEinval}, std::pair{nbd::kCmdBlockStatus, kEinval}}) {
      const Bytes payload = pattern(type == nbd::kCmdWrite ? range.length : 0, 3);
      const CommandReply reply = client.command(
          {.type = type, .offset = range.offset, .length = range.length, .cookie = 8}, payload);
      EXPECT_EQ(reply.error, error) << type << " at " << range.offset;
      EXPECT_EQ(reply.cookie, 8U);
    }
  }
  EXPECT_EQ(read_device(*device, 0, kSize), Bytes(kSize));
  // The last byte is as good as any other.
  EXPECT_EQ(
      client.command({.type = nbd::kCmdWrite, .offset = kSize - 1, .length = 1}, Bytes(1)).error,
      0U);
  EXPECT_EQ(client.command({.offset = kSize - 1, .length = 1}).data.size(), 1U);
}

TEST_F(NbdTransmission, ARefusedWritesPayloadIsConsumed) {
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

TEST_F(NbdTransmission, AWritableDeviceCanBeServedReadOnly) {
  options.read_only = true;
  start();
  NbdClient client = enter();
  EXPECT_EQ(client.command({.type = nbd::kCmdWrite, .length = 3}, bytes_of("abc")).error, kEperm);
  EXPECT_EQ(client.command({.length = 3}).data, Bytes(3));
}

TEST_F(NbdTransmission, UnknownCommandsAndFlagsAreErrors) {
  start();
  NbdClient client = enter(true, true);
  for (const std::uint16_t type : std::initializer_list<std::uint16_t>{8, 99, 0xffff}) {
    EXPECT_EQ(client.command({.type = type, .offset = 1, .length = 2, .cookie = 3}).error, kEinval);
  }
  for (const std::uint16_t type : std::initializer_list<std::uint16_t>{0, 3, 4, 5, 6, 7}) {
    for (const std::uint16_t flag : std::initializer_list<std::uint16_t>{0x8000, 0x20}) {
      const std::uint32_t length = type == nbd::kCmdFlush ? 0 : 512;
      EXPECT_EQ(client.command({.type = type, .length = length, .flags = flag}).error, kEinval);
    }
  }
  // Flags that belong to another command.
  EXPECT_EQ(client.command({.length = 512, .flags = nbd::kCmdFlagNoHole}).error, kEinval);
  EXPECT_EQ(
      client.command({.type = nbd::kCmdTrim, .length = 1, .flags = nbd::kCmdFlagFastZero}).error,
      kEinval);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush, .flags = nbd::kCmdFlagReqOne}).error, kEinval);
  EXPECT_EQ(client.command({.length = 512}).data, Bytes(512));
}

TEST_F(NbdTransmission, ForceUnitAccessIsAcceptedEverywhereAndFlushes) {
  start();
  NbdClient client = enter(true, true);
  const std::uint16_t fua = nbd::kCmdFlagFua;
  const std::uint64_t before = device->stats().flushes;
  EXPECT_EQ(
      client.command({.type = nbd::kCmdWrite, .length = 3, .flags = fua}, bytes_of("abc")).error,
      0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdTrim, .length = 3, .flags = fua}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdWriteZeroes, .length = 3, .flags = fua}).error, 0U);
  EXPECT_EQ(device->stats().flushes, before + 3);
  EXPECT_EQ(client.command({.length = 3, .flags = fua}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush, .flags = fua}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdCache, .length = 3, .flags = fua}).error, 0U);
  EXPECT_EQ(client.command({.type = nbd::kCmdBlockStatus, .length = 3, .flags = fua}).error, 0U);
  device->fail_next(Op::flush, Status::io_error);
  EXPECT_EQ(
      client.command({.type = nbd::kCmdWrite, .length = 3, .flags = fua}, bytes_of("abc")).error,
      kEio);
  device->fail_next(Op::flush, Status::io_error);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush}).error, kEio);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush}).error, 0U);
}

TEST_F(NbdTransmission, NothingIsAskedForAndDone) {
  start();
  NbdClient client = enter(true, true);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{7}, kMiB}) {
    for (const std::uint16_t type : std::initializer_list<std::uint16_t>{0, 1, 4, 5, 6}) {
      const CommandReply reply = client.command({.type = type, .offset = offset, .cookie = 4});
      EXPECT_TRUE(reply.came);
      EXPECT_EQ(reply.error, 0U) << type;
      EXPECT_TRUE(reply.data.empty());
    }
    EXPECT_EQ(client.command({.type = nbd::kCmdBlockStatus, .offset = offset}).error, kEinval);
  }
  // What a later protocol may mean by these is not for us to guess.
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush, .offset = 1}).error, kEinval);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush, .length = 1}).error, kEinval);
  EXPECT_EQ(client.command({.type = nbd::kCmdFlush}).error, 0U);
}

TEST_F(NbdTransmission, ZeroesAreExactWhateverTheFlags) {
  start();
  NbdClient client = enter(true, true);
  for (const std::uint16_t flags :
       std::initializer_list<std::uint16_t>{0, 2, 16, 1, 18, 19}) {  // NO_HOLE, FAST_ZERO, FUA
    Bytes expected(kMiB, std::byte{0xa5});
    ASSERT_EQ(device->write(0, expected), Status::ok);
    const struct {
      std::uint32_t offset, length;
    } ranges[] = {{512, 512}, {4095, 2}, {8191, 8194}, {65536, 65536}, {kMiB - 1, 1}};
    for (const auto& range : ranges) {
      EXPECT_EQ(client
                    .command({.type = nbd::kCmdWriteZeroes,
                              .offset = range.offset,
                              .length = range.length,
                              .flags = flags})
                    .error,
                0U);
      std::fill_n(expected.begin() + range.offset, range.length, std::byte{0});
    }
    EXPECT_EQ(client.command({.length = kMiB}).data, expected) << flags;
    const CommandReply status =
        client.command({.type = nbd::kCmdBlockStatus, .offset = 65536, .length = 65536});
    const std::uint32_t state = (flags & nbd::kCmdFlagNoHole) != 0 ? 0 : 3;
    EXPECT_EQ(status.data, bytes_of(nbd::Writer().number(1U).number(65536U).number(state)));
  }
}

TEST_F(NbdTransmission, ADiscardTouchesNothingOutsideItsRange) {
  start(16 * 4096);
  NbdClient client = enter();
  Bytes expected(16 * 4096, std::byte{0xa5});
  ASSERT_EQ(device->write(0, expected), Status::ok);
  const struct {
    std::uint32_t offset, length;
  } ranges[] = {{1024, 512}, {3584, 5120}, {0, 1}, {65535, 1}, {12288, 4096}, {20000, 10000}};
  for (const auto& range : ranges) {
    EXPECT_EQ(
        client.command({.type = nbd::kCmdTrim, .offset = range.offset, .length = range.length})
            .error,
        0U);
    std::fill_n(expected.begin() + range.offset, range.length, std::byte{0});
    EXPECT_EQ(client.command({.length = 16 * 4096}).data, expected);
  }
}

TEST_F(NbdTransmission, LargeRequestsUpToTheMaximumAndErrorsAboveIt) {
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

TEST_F(NbdTransmission, TheLongestRefusedWriteIsConsumedInBoundedMemory) {
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

TEST_F(NbdTransmission, TheSameCookieMayBeInFlightTwice) {
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

TEST_F(NbdTransmission, AWrongMagicEndsTheConnectionAlone) {
  start();
  NbdClient client = enter(), other = enter();
  Bytes message = encode_command({.length = 1});
  message[0] = std::byte{0};
  ASSERT_TRUE(client.send(message));
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(other.command({.length = 1}).error, 0U);
}

TEST_F(NbdTransmission, DisconnectKeepsWhatCameBefore) {
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

TEST_F(NbdTransmission, AHalfClosedClientGetsAllItsReplies) {
  start();
  NbdClient client = enter();
  nbd::Writer reads;
  for (int i = 0; i < 100; ++i) reads.bytes(encode_command({.length = 4096}));
  ASSERT_TRUE(client.send(reads.view()));
  client.half_close();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive_reply(4096).data.size(), 4096U);
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdTransmission, AWriteThatIsCutOffChangesNothing) {
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

TEST_F(NbdTransmission, BlockStatusAgreesWithWhatIsStored) {
  start(64 * 4096);
  NbdClient client = enter(true, true);
  using nbd::Writer;
  const auto status = [&](std::uint64_t offset, std::uint32_t length, std::uint16_t flags = 0) {
    const CommandReply reply = client.command({.type = nbd::kCmdBlockStatus,
                                               .offset = offset,
                                               .length = length,
                                               .flags = flags,
                                               .cookie = 3});
    EXPECT_TRUE(reply.structured);
    EXPECT_EQ(reply.type, 5U);
    EXPECT_EQ(reply.flags, 1U);
    return reply.data;
  };
  EXPECT_EQ(status(0, 64 * 4096), bytes_of(Writer().number(1U).number(64U * 4096).number(3U)));
  ASSERT_EQ(device->write(4096, pattern(2 * 4096, 1)), Status::ok);
  ASSERT_EQ(device->write(10 * 4096, pattern(4096, 1)), Status::ok);
  const Bytes map = bytes_of(Writer()
                                 .number(1U)
                                 .number(4096U)
                                 .number(3U)
                                 .number(2U * 4096)
                                 .number(0U)
                                 .number(7U * 4096)
                                 .number(3U)
                                 .number(4096U)
                                 .number(0U)
                                 .number(53U * 4096)
                                 .number(3U));
  EXPECT_EQ(status(0, 64 * 4096), map);
  EXPECT_EQ(status(0, 64 * 4096), map);
  EXPECT_EQ(status(0, 64 * 4096, nbd::kCmdFlagReqOne),
            bytes_of(Writer().number(1U).number(4096U).number(3U)));
  EXPECT_EQ(status(4097, 10, nbd::kCmdFlagReqOne),
            bytes_of(Writer().number(1U).number(10U).number(0U)));
  EXPECT_EQ(status(4095, 2),
            bytes_of(Writer().number(1U).number(1U).number(3U).number(1U).number(0U)));
}

TEST_F(NbdTransmission, BlockStatusKeepsItsPlaceAmongOtherRequests) {
  start();
  NbdClient client = enter(true, true);
  using nbd::Writer;
  const Bytes page = pattern(4096, 1);
  const Command write{.type = nbd::kCmdWrite, .length = 4096}, read{.length = 4096},
      trim{.type = nbd::kCmdTrim, .length = 4096},
      status{.type = nbd::kCmdBlockStatus, .length = 4096};
  Writer all;
  all.bytes(encode_command(read)).bytes(encode_command(status));
  all.bytes(encode_command(write, page)).bytes(encode_command(read)).bytes(encode_command(status));
  all.bytes(encode_command(read)).bytes(encode_command(trim)).bytes(encode_command(status));
  ASSERT_TRUE(client.send(all.view()));
  const Bytes hole = bytes_of(Writer().number(1U).number(4096U).number(3U));
  const Bytes data = bytes_of(Writer().number(1U).number(4096U).number(0U));
  EXPECT_EQ(client.receive_reply().data, Bytes(4096));
  EXPECT_EQ(client.receive_reply().data, hole);
  EXPECT_EQ(client.receive_reply().error, 0U);
  EXPECT_EQ(client.receive_reply().data, page);
  EXPECT_EQ(client.receive_reply().data, data);
  EXPECT_EQ(client.receive_reply().data, page);
  EXPECT_EQ(client.receive_reply().error, 0U);
  EXPECT_EQ(client.receive_reply().data, hole);
}

TEST_F(NbdTransmission, BlockStatusOfManyRunsComesInPieces) {
  constexpr std::uint32_t kPages = 6000;
  start(std::uint64_t{kPages} * 4096);
  for (std::uint32_t page = 0; page < kPages; page += 2) {
    ASSERT_EQ(device->write(std::uint64_t{page} * 4096, pattern(512, page)), Status::ok);
  }
  NbdClient client = enter(true, true);
  std::uint32_t done = 0, runs = 0;
  while (done < kPages * 4096) {
    const CommandReply reply = client.command(
        {.type = nbd::kCmdBlockStatus, .offset = done, .length = kPages * 4096 - done});
    ASSERT_GT(reply.data.size(), 4U);
    ASSERT_EQ(reply.data.size() % 8, 4U);
    for (std::size_t at = 4; at < reply.data.size(); at += 8, ++runs) {
      ASSERT_EQ(nbd::load_be<std::uint32_t>(reply.data.data() + at), 4096U);
      ASSERT_EQ(nbd::load_be<std::uint32_t>(reply.data.data() + at + 4), runs % 2 == 0 ? 0U : 3U);
      done += 4096;
    }
  }
  EXPECT_EQ(runs, kPages);
}

TEST_F(NbdTransmission, BlockStatusNeedsASelectedContext) {
  start();
  NbdClient simple = enter(), structured = enter(true);
  const Command status{.type = nbd::kCmdBlockStatus, .length = 4096};
  EXPECT_EQ(simple.command(status).error, kEinval);
  const CommandReply reply = structured.command(status);
  EXPECT_TRUE(reply.structured);
  EXPECT_EQ(reply.error, kEinval);
}

TEST_F(NbdTransmission, DeviceErrorsReachTheClientAndTheConnectionStays) {
  start();
  NbdClient client = enter();
  const struct {
    Status status;
    std::uint32_t error;
  } cases[] = {{Status::no_space, 28},        {Status::no_memory, 12},      {Status::io_error, 5},
               {Status::not_supported, 95},   {Status::shutting_down, 108}, {Status::busy, 5},
               {Status::invalid_argument, 22}};
  for (const auto& [status, error] : cases) {
    device->fail_next(Op::write, status);
    EXPECT_EQ(client.command({.type = nbd::kCmdWrite, .length = 1}, bytes_of("x")).error, error);
    device->fail_next(Op::discard, status);
    EXPECT_EQ(client.command({.type = nbd::kCmdTrim, .length = 1}).error, error);
    device->fail_next(Op::write_zeroes, status);
    EXPECT_EQ(client.command({.type = nbd::kCmdWriteZeroes, .length = 1}).error, error);
  }
  EXPECT_EQ(client.command({.length = 1}).data, Bytes(1));
}

// Many requests in flight, cut at random places of the stream, against a flat array.
TEST_F(NbdTransmission, PipelinedRequestsAreRunInOrder) {
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
