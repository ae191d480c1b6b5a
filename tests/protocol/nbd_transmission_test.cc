// Commands and their replies: what each does, and what wrong ones get.
#include <initializer_list>

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

}  // namespace
}  // namespace uzram::test
