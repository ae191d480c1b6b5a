// BLOCK_STATUS of base:allocation.
#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdBlockStatus = NbdServerTest;

TEST_F(NbdBlockStatus, BlockStatusAgreesWithWhatIsStored) {
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

TEST_F(NbdBlockStatus, BlockStatusKeepsItsPlaceAmongOtherRequests) {
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

TEST_F(NbdBlockStatus, BlockStatusOfManyRunsComesInPieces) {
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

TEST_F(NbdBlockStatus, BlockStatusNeedsASelectedContext) {
  start();
  NbdClient simple = enter(), structured = enter(true);
  const Command status{.type = nbd::kCmdBlockStatus, .length = 4096};
  EXPECT_EQ(simple.command(status).error, kEinval);
  const CommandReply reply = structured.command(status);
  EXPECT_TRUE(reply.structured);
  EXPECT_EQ(reply.error, kEinval);
}

}  // namespace
}  // namespace uzram::test
