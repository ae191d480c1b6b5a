// What clients may take: time, connections, descriptors, log lines.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>
#include <vector>

#include "tests/protocol/nbd_fixture.h"

namespace uzram::test {
namespace {

using NbdLimits = NbdServerTest;
using std::chrono::milliseconds;

// Waits, with a limit, for something that the server does on its own.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

TEST_F(NbdLimits, AHandshakeHasOneTimeLimitHoweverManyBytesTrickleIn) {
  options.handshake_time = milliseconds(200);
  start();
  NbdClient silent = connect(), trickling = connect();
  EXPECT_EQ(silent.receive(18).size(), 18U);
  EXPECT_EQ(trickling.receive(18).size(), 18U);
  const Bytes options_sent = encode_option(0x7fff, Bytes(60000));
  ASSERT_TRUE(trickling.send(bytes_of(nbd::Writer().number(3U))));
  bool open = true;
  for (std::size_t i = 0; open && i < options_sent.size(); ++i) {
    open = trickling.send(std::span(&options_sent[i], 1));
    ::poll(nullptr, 0, 1);  // the pace of this client, not a wait for the server
  }
  EXPECT_FALSE(open);
  EXPECT_TRUE(silent.at_end());
  // The limit is the handshake's: who has finished it may rest.
  NbdClient resting = enter();
  ::poll(nullptr, 0, 400);
  EXPECT_EQ(resting.command({.length = 1}).error, 0U);
}

TEST_F(NbdLimits, SilentClientsDontKeepOthersOut) {
  options.connections_max = 8;
  start();
  NbdClient before = enter();
  const long tasks = threads();
  std::vector<NbdClient> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connect());
  NbdClient after = enter();
  EXPECT_EQ(before.command({.length = 1}).error, 0U);
  EXPECT_EQ(after.command({.length = 1}).error, 0U);
  EXPECT_LE(threads(), tasks + 7);
}

TEST_F(NbdLimits, AboveTheCapClientsAreClosedAtOnce) {
  options.connections_max = 3;
  start();
  std::vector<NbdClient> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(enter());
  for (int i = 0; i < 20; ++i) {
    NbdClient refused = connect();
    EXPECT_TRUE(refused.at_end());
  }
  EXPECT_EQ(server->clients(), 3U);
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server->clients() == 2; }));
  ASSERT_TRUE(eventually([&] { return connect().enter(false); }));
  for (NbdClient& client : clients) EXPECT_EQ(client.command({.length = 1}).error, 0U);
}

TEST_F(NbdLimits, FloodsOfProbesLeaveNothingBehind) {
  start();
  NbdClient witness = enter();
  testing::internal::CaptureStderr();
  const long files = open_files(), tasks = threads();
  for (int i = 0; i < 2000; ++i) {
    constexpr std::size_t kLengths[] = {0, 1, 4, 17, 18};
    NbdClient client = connect();
    ASSERT_TRUE(client.connected());
    (void)client.send(Bytes(kLengths[i % 5], std::byte{0x33}));
  }
  for (int i = 0; i < 1000; ++i) {
    NbdClient client = connect();
    if (!client.greet()) continue;  // turned away because others were not collected yet
    (void)client.send(encode_option(nbd::kOptList, {}));
    if (i % 2 == 0) client.half_close();
  }
  EXPECT_TRUE(eventually([&] { return open_files() == files && threads() == tasks; }))
      << open_files() << " files, " << threads() << " threads";
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 100) << log;
  EXPECT_EQ(witness.command({.length = 1}).error, 0U);
}

// Takes all descriptors that this process may have; `free` gives some back.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit tight{200, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (;;) {
      taken_.emplace_back(::fcntl(0, F_DUPFD_CLOEXEC, 0));
      if (!taken_.back()) break;
    }
    taken_.pop_back();
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  void free(std::size_t count) { taken_.resize(taken_.size() - count); }

 private:
  rlimit before_{};
  std::vector<base::Fd> taken_;
};

TEST_F(NbdLimits, WithoutDescriptorsClientsAreTurnedAwayAndOthersCarryOn) {
  start();
  NbdClient witness = enter();
  NoDescriptors none;
  none.free(1);  // for the client's end
  for (int i = 0; i < 20; ++i) {
    NbdClient refused = connect();
    ASSERT_TRUE(refused.connected());
    EXPECT_TRUE(refused.at_end());
    EXPECT_EQ(witness.command({.length = 1}).error, 0U);
  }
  none.free(10);
  EXPECT_EQ(enter().command({.length = 1}).error, 0U);
}

TEST_F(NbdLimits, WithoutADescriptorToTurnClientsAwayItWaitsAndResumes) {
  NoDescriptors none;
  none.free(2);  // for the listening socket and the eventfd
  start();
  none.free(1);
  NbdClient client = connect();
  ASSERT_TRUE(client.connected());
  const double cpu = cpu_seconds();
  ::poll(nullptr, 0, 300);
  EXPECT_LT(cpu_seconds() - cpu, 0.1);
  none.free(10);
  ASSERT_TRUE(client.enter(false));
  EXPECT_EQ(client.command({.length = 1}).error, 0U);
}

TEST_F(NbdLimits, AClientThatDoesNotReadRepliesIsDropped) {
  options.stall_time = milliseconds(300);
  start(8 << 20);
  NbdClient witness = enter(), deaf = enter();
  nbd::Writer reads;
  for (int i = 0; i < 64; ++i) reads.bytes(encode_command({.length = 8 << 20}));
  ASSERT_TRUE(deaf.send(reads.view()));
  EXPECT_EQ(witness.command({.length = 4096}).data.size(), 4096U);
  EXPECT_TRUE(eventually([&] { return server->clients() == 1; }));
  EXPECT_EQ(witness.command({.length = 4096}).data.size(), 4096U);
}

TEST_F(NbdLimits, AClientThatStopsWithinARequestIsDropped) {
  options.stall_time = milliseconds(200);
  start();
  const Bytes header = encode_command({.type = nbd::kCmdWrite, .length = 500000});
  for (const std::size_t length :
       {std::size_t{1}, header.size() - 1, header.size(), header.size() + 70000}) {
    NbdClient client = enter();
    Bytes part = header;
    part.resize(length);
    ASSERT_TRUE(client.send(part));
    EXPECT_TRUE(client.at_end()) << length;
  }
  const Bytes refused = encode_command({.type = nbd::kCmdWrite, .length = 0xffffffff});
  NbdClient client = enter();
  ASSERT_TRUE(client.send(refused));
  EXPECT_TRUE(client.at_end());
}

TEST_F(NbdLimits, AClientThatDripsIsDropped) {
  options.stall_time = milliseconds(300);
  start();
  const Bytes small = encode_command({.type = nbd::kCmdWrite, .length = 4096}, Bytes(4096));
  const Bytes large = encode_command({.type = nbd::kCmdWrite, .length = 200000}, Bytes(200000));
  for (const Bytes& message : {small, large}) {
    NbdClient client = enter();
    std::size_t sent = 0;
    while (sent < message.size() && client.send(std::span(message).subspan(sent, 1))) {
      ++sent;
      ::poll(nullptr, 0, 10);
    }
    EXPECT_LT(sent, message.size());
  }
}

TEST_F(NbdLimits, AnIdleClientMayRestAsLongAsItLikes) {
  options.stall_time = milliseconds(50);
  start();
  NbdClient client = enter();
  const Bytes data = pattern(200000, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.command({.type = nbd::kCmdWrite, .length = 200000}, data).error, 0U);
    ::poll(nullptr, 0, 200);  // its buffers are given back meanwhile
    EXPECT_TRUE(client.command({.length = 200000}).data == data);
  }
  const double cpu = cpu_seconds();
  ::poll(nullptr, 0, 300);
  EXPECT_LT(cpu_seconds() - cpu, 0.05);
}

TEST_F(NbdLimits, OptionsAreChecked) {
  const auto refused = [&](auto change, const char* what) {
    attach::NbdOptions wrong = options;
    change(wrong);
    FakeDevice small(4096);
    const auto started = attach::start_nbd(small, wrong);
    ASSERT_FALSE(started) << what;
    EXPECT_EQ(started.error().status, Status::invalid_argument);
    EXPECT_NE(started.error().message.find(what), std::string::npos) << started.error().message;
  };
  refused([](auto& o) { o.block_bytes = 1024; }, "1024");
  refused([](auto& o) { o.export_name.clear(); }, "export name");
  refused([](auto& o) { o.export_name.assign(4097, 'x'); }, "4096");
  refused([](auto& o) { o.description.assign(4097, 'x'); }, "4096");
  refused([](auto& o) { o.connections_max = 0; }, "limits");
}

}  // namespace
}  // namespace uzram::test
