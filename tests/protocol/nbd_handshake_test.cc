// The handshake, option by option, as good and as bad clients do it.
#include <random>

#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdHandshake = NbdServerTest;

constexpr std::uint32_t kAck = 1, kUnsup = 0x80000001, kInvalid = 0x80000003, kUnknown = 0x80000006,
                        kTooBig = 0x80000009;

// The session must go on after whatever was answered before.
void expect_usable(NbdClient& client) {
  EXPECT_EQ(client.option(nbd::kOptGo, encode_go("")).back().type, kAck);
  const CommandReply reply = client.command({.type = nbd::kCmdRead, .length = 8, .cookie = 77});
  EXPECT_TRUE(reply.came);
  EXPECT_EQ(reply.error, 0U);
  EXPECT_EQ(reply.cookie, 77U);
  EXPECT_EQ(reply.data, Bytes(8));
}

TEST_F(NbdHandshake, ExportNameIsAnsweredWith134Or10Bytes) {
  start(12345);
  for (const std::uint32_t flags : {0U, 1U, 3U}) {
    NbdClient client = connect();
    ASSERT_TRUE(client.greet(flags));
    ASSERT_TRUE(client.send(encode_option(nbd::kOptExportName, bytes_of("disk0"))));
    const Bytes answer = client.receive(flags == 3 ? 10 : 134);
    ASSERT_EQ(answer.size(), flags == 3 ? 10U : 134U);
    EXPECT_EQ(nbd::load_be<std::uint64_t>(answer.data()), 12345U);
    EXPECT_EQ(Bytes(answer.begin() + 10, answer.end()), Bytes(flags == 3 ? 0 : 124));
    // Not a byte more: the next thing is the reply to a command.
    const CommandReply reply = client.command({.offset = 100, .length = 16, .cookie = 5});
    EXPECT_TRUE(reply.came);
    EXPECT_EQ(reply.data.size(), 16U);
  }
}

TEST_F(NbdHandshake, ExportNameCanOnlyFailByClosing) {
  start();
  for (const std::string& name : {std::string("other"), std::string(4096, 'x'),
                                  std::string(5000, 'x'), std::string("disk0\0", 6)}) {
    NbdClient client = connect();
    ASSERT_TRUE(client.greet());
    ASSERT_TRUE(client.send(encode_option(nbd::kOptExportName, bytes_of(name))));
    EXPECT_TRUE(client.at_end()) << name;
  }
}

TEST_F(NbdHandshake, UnknownClientFlagsEndIt) {
  start();
  for (const std::uint32_t flags : {4U, 0x80000000U, 0xffffffffU}) {
    NbdClient client = connect();
    ASSERT_TRUE(client.greet(flags));
    EXPECT_TRUE(client.at_end()) << flags;
  }
}

TEST_F(NbdHandshake, WithoutFixedNewstyleOnlyExportNameIsServed) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet(2));
  ASSERT_TRUE(client.send(encode_option(nbd::kOptList, {})));
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHandshake, AbortIsAcknowledged) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  const auto replies = client.option(nbd::kOptAbort);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].option, nbd::kOptAbort);
  EXPECT_EQ(replies[0].type, kAck);
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHandshake, ListTellsNameAndDescription) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  const auto replies = client.option(nbd::kOptList);
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[0].type, 2U);
  EXPECT_EQ(replies[0].data, bytes_of(nbd::Writer().sized_text("disk0").text("for tests")));
  EXPECT_EQ(replies[1].type, kAck);
  EXPECT_TRUE(replies[1].data.empty());
  EXPECT_EQ(client.option(nbd::kOptList, bytes_of("x")).back().type, kInvalid);
  expect_usable(client);
}

TEST_F(NbdHandshake, WhatIsNotServedIsRefusedAndTheSessionGoesOn) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  EXPECT_EQ(client.option(0x7fff, bytes_of("12345")).back().type, kUnsup);
  EXPECT_EQ(client.option(nbd::kOptStartTls).back().type, kUnsup);
  EXPECT_EQ(client.option(nbd::kOptStartTls, bytes_of("x")).back().type, kInvalid);
  EXPECT_EQ(client.option(4).back().type, kUnsup);   // PEEK_EXPORT, withdrawn
  EXPECT_EQ(client.option(11).back().type, kUnsup);  // EXTENDED_HEADERS
  EXPECT_EQ(client.option(0).back().type, kUnsup);
  EXPECT_EQ(client.option(0xffffffff, Bytes(60000)).back().type, kUnsup);
  EXPECT_EQ(client.option(nbd::kOptStructuredReply, bytes_of("x")).back().type, kInvalid);
  expect_usable(client);
}

TEST_F(NbdHandshake, GoTellsWhatWasAskedAndInfoTheSame) {
  start(777777);
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  constexpr std::uint16_t kInfos[] = {3, 1, 2, 0, 99, 3, 0xffff, 4, 1, 7};
  const auto info = client.option(nbd::kOptInfo, encode_go("disk0", kInfos));
  const auto go = client.option(nbd::kOptGo, encode_go("disk0", kInfos));
  ASSERT_EQ(go.size(), 5U);
  ASSERT_EQ(info.size(), go.size());
  for (std::size_t i = 0; i < go.size(); ++i) {
    EXPECT_EQ(info[i].type, go[i].type);
    EXPECT_EQ(info[i].data, go[i].data);
    EXPECT_EQ(go[i].option, nbd::kOptGo);
  }
  const std::uint16_t flags = 1 | 4 | 8 | 32 | 64 | 256 | 1024 | 2048;
  EXPECT_EQ(
      go[0].data,
      bytes_of(nbd::Writer().number(std::uint16_t{0}).number(std::uint64_t{777777}).number(flags)));
  EXPECT_EQ(go[1].data, bytes_of(nbd::Writer().number(std::uint16_t{1}).text("disk0")));
  EXPECT_EQ(go[2].data, bytes_of(nbd::Writer().number(std::uint16_t{2}).text("for tests")));
  EXPECT_EQ(go[3].data, bytes_of(nbd::Writer()
                                     .number(std::uint16_t{3})
                                     .number(1U)
                                     .number(4096U)
                                     .number(std::uint32_t{32} << 20)));
  EXPECT_EQ(client.command({.length = 1}).data.size(), 1U);
}

TEST_F(NbdHandshake, GoWithoutInfosStillTellsTheExport) {
  options.description.clear();
  options.block_bytes = 512;
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  EXPECT_EQ(client.option(nbd::kOptInfo, encode_go("")).size(), 2U);
  constexpr std::uint16_t kInfos[] = {2, 3};  // there is no description to tell
  const auto replies = client.option(nbd::kOptGo, encode_go("", kInfos));
  ASSERT_EQ(replies.size(), 3U);
  EXPECT_EQ(nbd::load_be<std::uint16_t>(replies[0].data.data()), 0U);
  EXPECT_EQ(nbd::load_be<std::uint32_t>(replies[1].data.data() + 6), 512U);
}

TEST_F(NbdHandshake, TransmissionFlagsFollowReadOnlyAndStructuredReplies) {
  start(4096, true);
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  const auto before = client.option(nbd::kOptInfo, encode_go(""));
  EXPECT_EQ(nbd::load_be<std::uint16_t>(before[0].data.data() + 10), 1 | 2 | 4 | 8 | 256 | 1024);
  EXPECT_EQ(client.option(nbd::kOptStructuredReply).back().type, kAck);
  EXPECT_EQ(client.option(nbd::kOptStructuredReply).back().type, kAck);
  const auto after = client.option(nbd::kOptInfo, encode_go(""));
  EXPECT_EQ(nbd::load_be<std::uint16_t>(after[0].data.data() + 10),
            1 | 2 | 4 | 8 | 128 | 256 | 1024);
}

TEST_F(NbdHandshake, StrangeNamesAreUnknownOrTooLong) {
  options.handshake_options_max = 100;
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  for (const std::string& name :
       {std::string("disk"), std::string("disk0\0", 6), std::string("../disk0"), std::string("/"),
        std::string(256, 'n'), std::string(3000, 'n'), std::string(4096, 'n')}) {
    EXPECT_EQ(client.option(nbd::kOptInfo, encode_go(name)).back().type, kUnknown);
    EXPECT_EQ(client.option(nbd::kOptGo, encode_go(name)).back().type, kUnknown);
  }
  for (const std::size_t length : {4097U, 5000U, 60000U}) {
    EXPECT_EQ(client.option(nbd::kOptGo, encode_go(std::string(length, 'n'))).back().type, kTooBig);
  }
  expect_usable(client);
}

TEST_F(NbdHandshake, LyingLengthsAreInvalidAndTheSessionGoesOn) {
  options.handshake_options_max = 100;
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  using nbd::Writer;
  const Bytes bodies[] = {
      {},
      Bytes(1),
      bytes_of(Writer().number(0xffffffffU).number(std::uint16_t{0})),
      bytes_of(Writer().number(3U).number(std::uint16_t{0})),
      bytes_of(Writer().sized_text("disk0")),
      bytes_of(Writer().sized_text("disk0").number(std::uint16_t{1})),
      bytes_of(Writer().sized_text("disk0").number(std::uint16_t{0xffff}).number(0U)),
      bytes_of(Writer().sized_text("disk0").number(std::uint16_t{0}).number(std::uint16_t{0})),
  };
  for (const Bytes& body : bodies) {
    EXPECT_EQ(client.option(nbd::kOptInfo, body).back().type, kInvalid);
    EXPECT_EQ(client.option(nbd::kOptGo, body).back().type, kInvalid);
  }
  EXPECT_EQ(client.option(nbd::kOptStructuredReply).back().type, kAck);
  const Bytes context_bodies[] = {
      {},
      bytes_of(Writer().number(0xffffffffU).number(0U)),
      bytes_of(Writer().sized_text("disk0")),
      bytes_of(Writer().sized_text("disk0").number(1U)),
      bytes_of(Writer().sized_text("disk0").number(0xffffffffU).sized_text("base:allocation")),
      bytes_of(Writer().sized_text("disk0").number(1U).number(0xfffffff0U).text("base:")),
      bytes_of(Writer().sized_text("disk0").number(0U).text("x")),
  };
  for (const Bytes& body : context_bodies) {
    EXPECT_EQ(client.option(nbd::kOptListMetaContext, body).back().type, kInvalid);
    EXPECT_EQ(client.option(nbd::kOptSetMetaContext, body).back().type, kInvalid);
  }
  expect_usable(client);
}

TEST_F(NbdHandshake, BrokenMagicAndAbsurdLengthsEndIt) {
  options.handshake_time = std::chrono::minutes(10);  // it is not time that ends it
  start();
  using nbd::Writer;
  for (const Writer& message : {Writer().text("IHAVENOT").number(7U).number(0U),
                                Writer().text("IHAVEOPT").number(7U).number(0xffffffffU),
                                Writer().text("IHAVEOPT").number(7U).number(65537U),
                                Writer().text("IHAVEOPT").number(0x7fffU).number(65537U)}) {
    NbdClient client = connect();
    ASSERT_TRUE(client.greet());
    ASSERT_TRUE(client.send(message.view()));
    EXPECT_TRUE(client.at_end());
  }
}

TEST_F(NbdHandshake, OptionsAreBounded) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  Bytes flood;
  for (int i = 0; i < 2000; ++i) {
    const Bytes option = encode_option(0x7fff, {});
    flood.insert(flood.end(), option.begin(), option.end());
  }
  ASSERT_TRUE(client.send(flood));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(client.receive_option_reply().type, kUnsup);
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHandshake, MetaContextsAreListedAndSelected) {
  options.handshake_options_max = 100;
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.greet());
  constexpr std::string_view kAllocation[] = {"base:allocation"};
  EXPECT_EQ(client.option(nbd::kOptSetMetaContext, encode_contexts("", kAllocation)).back().type,
            kInvalid);  // structured replies come first
  EXPECT_EQ(client.option(nbd::kOptStructuredReply).back().type, kAck);

  const auto names = [&](std::uint32_t option, std::vector<std::string_view> queries) {
    std::vector<std::string> found;
    const auto replies = client.option(option, encode_contexts("disk0", queries));
    EXPECT_EQ(replies.back().type, kAck);
    for (std::size_t i = 0; i + 1 < replies.size(); ++i) {
      EXPECT_EQ(replies[i].type, 4U);
      const auto* text = reinterpret_cast<const char*>(replies[i].data.data());
      found.emplace_back(text + 4, replies[i].data.size() - 4);
    }
    return found;
  };
  const std::vector<std::string> one{"base:allocation"}, none;
  EXPECT_EQ(names(nbd::kOptListMetaContext, {}), one);
  EXPECT_EQ(names(nbd::kOptListMetaContext, {"base:"}), one);
  EXPECT_EQ(names(nbd::kOptListMetaContext, {"x:y", "base:allocation", "base:"}), one);
  EXPECT_EQ(names(nbd::kOptListMetaContext, {"base:other", "qemu:", ""}), none);
  EXPECT_EQ(names(nbd::kOptSetMetaContext, {}), none);
  EXPECT_EQ(names(nbd::kOptSetMetaContext, {"base:"}), none);
  EXPECT_EQ(names(nbd::kOptSetMetaContext, {"qemu:dirty-bitmap:a", "base:allocation"}), one);
  EXPECT_EQ(client.option(nbd::kOptListMetaContext, encode_contexts("other", {})).back().type,
            kUnknown);
  const std::string long_query(4097, 'q');
  const std::string_view kLong[] = {long_query};
  EXPECT_EQ(client.option(nbd::kOptListMetaContext, encode_contexts("", kLong)).back().type,
            kTooBig);
}

TEST_F(NbdHandshake, ASelectionLastsUntilTheNextOneAndForItsExportOnly) {
  start();
  constexpr std::string_view kAllocation[] = {"base:allocation"};
  const Command status{.type = nbd::kCmdBlockStatus, .length = 4096};
  const auto ready = [&] {
    NbdClient client = connect();
    EXPECT_TRUE(client.greet());
    EXPECT_EQ(client.option(nbd::kOptStructuredReply).back().type, kAck);
    EXPECT_EQ(client.option(nbd::kOptSetMetaContext, encode_contexts("disk0", kAllocation)).size(),
              2U);
    return client;
  };
  NbdClient good = ready();
  EXPECT_EQ(good.option(nbd::kOptGo, encode_go("disk0")).back().type, kAck);
  EXPECT_EQ(good.command(status).type, nbd::kReplyBlockStatus);

  NbdClient other_name = ready();
  EXPECT_EQ(other_name.option(nbd::kOptGo, encode_go("")).back().type, kAck);
  EXPECT_EQ(other_name.command(status).error, kEinval);

  NbdClient failed_again = ready();
  EXPECT_EQ(failed_again.option(nbd::kOptSetMetaContext, encode_contexts("other", kAllocation))
                .back()
                .type,
            kUnknown);
  EXPECT_EQ(failed_again.option(nbd::kOptGo, encode_go("disk0")).back().type, kAck);
  EXPECT_EQ(failed_again.command(status).error, kEinval);

  NbdClient old_way = ready();
  ASSERT_TRUE(old_way.send(encode_option(nbd::kOptExportName, bytes_of("disk0"))));
  EXPECT_EQ(old_way.receive(10).size(), 10U);
  EXPECT_EQ(old_way.command(status).type, nbd::kReplyBlockStatus);
}

Bytes whole_session() {
  nbd::Writer session;
  session.number(3U);
  session.bytes(encode_option(0x7fff, bytes_of("12345")));
  session.bytes(encode_option(nbd::kOptStructuredReply, {}));
  session.bytes(encode_option(nbd::kOptGo, encode_go("disk0")));
  session.bytes(encode_command({.type = nbd::kCmdWrite, .offset = 10, .length = 5, .cookie = 1},
                               bytes_of("hello")));
  session.bytes(encode_command({.type = nbd::kCmdRead, .offset = 9, .length = 7, .cookie = 2}));
  session.bytes(encode_command({.type = nbd::kCmdFlush, .cookie = 3}));
  session.bytes(encode_command({.type = nbd::kCmdDisc}));
  return bytes_of(session);
}

void expect_session_answers(NbdClient& client) {
  EXPECT_EQ(client.receive(18).size(), 18U);
  for (const std::uint32_t type : {kUnsup, kAck, 3U, kAck}) {
    EXPECT_EQ(client.receive_option_reply().type, type);
  }
  EXPECT_EQ(client.receive_reply().cookie, 1U);
  const CommandReply read = client.receive_reply();
  EXPECT_EQ(read.cookie, 2U);
  EXPECT_EQ(read.data, bytes_of(std::string_view("\0hello\0", 7)));
  EXPECT_EQ(client.receive_reply().cookie, 3U);
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdHandshake, AWholeSessionInOneWrite) {
  start();
  NbdClient client = connect();
  ASSERT_TRUE(client.send(whole_session()));
  expect_session_answers(client);
}

TEST_F(NbdHandshake, AWholeSessionByteByByte) {
  start();
  NbdClient client = connect();
  for (const std::byte byte : whole_session()) ASSERT_TRUE(client.send(std::span(&byte, 1)));
  expect_session_answers(client);
}

TEST_F(NbdHandshake, RandomBytesHarmNobodyElse) {
  start();
  NbdClient witness = enter();
  std::mt19937_64 random(20240229);
  for (int i = 0; i < 100; ++i) {
    NbdClient client = connect();
    Bytes noise = pattern(random() % 4000, random());
    if (i % 2 == 0) (void)client.greet();  // every other one gets past the flags
    (void)client.send(noise);
    client.half_close();
    while (!client.receive(4096).empty()) continue;
  }
  EXPECT_EQ(witness.command({.length = 4096}).data, Bytes(4096));
}

}  // namespace
}  // namespace uzram::test
