#include "backing/nbd_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/backing/blocks.h"

namespace uzram::backing {
namespace {

using test::Blocks;

// A server that accepts at most and says nothing.
base::Fd listen_on(const std::string& path) {
  base::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  return listener;
}

class NbdStore : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v nbdkit >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs nbdkit";
  }
  void TearDown() override { kill_server(); }

  // Returns when the server listens.
  void start_server(std::vector<std::string> arguments) {
    const std::string pid_file = dir_.path() + "/pid";
    std::vector<std::string> all{"nbdkit", "-f", "-U", socket_, "-P", pid_file};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> raw;
    for (std::string& argument : all) raw.push_back(argument.data());
    raw.push_back(nullptr);
    server_ = ::fork();
    if (server_ == 0) {
      ::execvp("nbdkit", raw.data());
      ::_exit(127);
    }
    while (!std::filesystem::exists(pid_file)) {
      if (::waitpid(server_, nullptr, WNOHANG) != 0) {
        server_ = -1;
        throw std::runtime_error("nbdkit did not start");
      }
      std::this_thread::yield();
    }
  }
  void kill_server() {
    if (server_ <= 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    server_ = -1;
    std::filesystem::remove(socket_);
    std::filesystem::remove(dir_.path() + "/pid");
  }
  std::string uri() const { return "nbd+unix:///?socket=" + socket_; }
  std::unique_ptr<Store> open() const {
    auto store = open_store(uri());
    if (!store) throw std::runtime_error(store.error().message);
    return std::move(*store);
  }
  void expect_refused(Status status, const std::string& why) const {
    const auto store = open_store(uri());
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().status, status) << store.error().message;
    EXPECT_EQ(store.error().message.substr(0, uri().size() + 2), uri() + ": ");
    EXPECT_NE(store.error().message.find(why), std::string::npos) << store.error().message;
  }

  const test::TempDir dir_;
  const std::string socket_ = dir_.path() + "/socket";
  pid_t server_ = -1;
};

TEST_F(NbdStore, KeepsDataAndDiscards) {
  start_server({"memory", "size=1M"});
  const auto store = open();
  ASSERT_EQ(store->block_count(), 256U);
  EXPECT_EQ(store->where(), uri());
  Blocks in(256), out(256);
  in.fill(1);
  std::vector<Io> batch;
  for (std::size_t i = 0; i < 256; ++i) {
    batch.push_back({Io::Kind::write, i * kBlockBytes, in.block(i), Status::would_block});
  }
  batch[7].offset = 256 * kBlockBytes;
  store->run(batch, 16);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(batch[i].status, i == 7 ? Status::out_of_range : Status::ok) << i;
  }
  ASSERT_EQ(write(*store, 0, in), Status::ok);
  ASSERT_EQ(read(*store, 0, out), Status::ok);
  EXPECT_TRUE(in == out);
  store->discard(1, 254);
  ASSERT_EQ(read(*store, 0, out), Status::ok);
  EXPECT_EQ(std::memcmp(out.block(0).data(), in.block(0).data(), kBlockBytes), 0);
  EXPECT_EQ(std::memcmp(out.block(255).data(), in.block(255).data(), kBlockBytes), 0);
  EXPECT_EQ(std::memcmp(out.block(1).data(), Blocks(1).all().data(), kBlockBytes), 0);
  EXPECT_EQ(std::memcmp(out.block(254).data(), Blocks(1).all().data(), kBlockBytes), 0);
}

TEST_F(NbdStore, FourThreads) {
  start_server({"memory", "size=1M"});
  const auto store = open();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (std::uint64_t round = 0; round < 20; ++round) {
        Blocks in(64), out(64);
        in.fill(4 * round + t);
        std::vector<Io> batch;
        for (std::size_t i = 0; i < 64; ++i) {
          batch.push_back(
              {Io::Kind::write, (t * 64 + i) * kBlockBytes, in.block(i), Status::would_block});
        }
        store->run(batch, ~0U);
        EXPECT_EQ(read(*store, t * 64, out), Status::ok);
        EXPECT_TRUE(in == out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NbdStore, SplitsWhatIsTooLargeForTheServer) {
  start_server({"--filter=blocksize-policy", "memory", "size=1M", "blocksize-minimum=512",
                "blocksize-preferred=4096", "blocksize-maximum=8192",
                "blocksize-error-policy=error"});
  const auto store = open();
  Blocks in(255), out(255);
  in.fill(2);
  EXPECT_EQ(write(*store, 1, in), Status::ok);
  EXPECT_EQ(read(*store, 1, out), Status::ok);
  EXPECT_TRUE(in == out);
}

TEST_F(NbdStore, ServerErrors) {
  start_server({"--filter=error", "memory", "size=1M", "error-pwrite=ENOSPC",
                "error-pwrite-rate=100%", "error-pread=EIO", "error-pread-rate=100%"});
  const auto store = open();
  const Blocks one(1);
  EXPECT_EQ(write(*store, 0, one), Status::no_space);
  EXPECT_EQ(read(*store, 0, one), Status::io_error);
  store->discard(0, 1);
}

// The slow read ends by the server's death alone, so the write does not wait for it.
TEST_F(NbdStore, SlowReadHoldsUpNoWriteAndEndsWithItsServer) {
  start_server({"--filter=delay", "memory", "size=1M", "rdelay=3600"});
  const auto store = open();
  Blocks in(1);
  in.fill(3);
  std::thread reader([&store] { EXPECT_EQ(read(*store, 0, Blocks(4)), Status::io_error); });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(write(*store, 9, in), Status::ok);
  kill_server();
  reader.join();
  EXPECT_EQ(write(*store, 9, in), Status::io_error);
  store->discard(0, 1);

  start_server({"memory", "size=1M"});
  Status status = Status::io_error;
  while (status == Status::io_error) {  // until the next attempt to connect
    status = write(*store, 9, in);
    std::this_thread::yield();
  }
  EXPECT_EQ(status, Status::ok);
  Blocks out(1);
  EXPECT_EQ(read(*store, 9, out), Status::ok);
  EXPECT_TRUE(in == out);
}

// The server lives on, keeps the connection and answers no read.
TEST_F(NbdStore, ShutDownFailsWhatIsUnderWayAndWhatComesLater) {
  start_server({"--filter=delay", "memory", "size=1M", "rdelay=3600"});
  const auto store = open();
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < 4; ++i) {
    readers.emplace_back([&store, i] {
      Blocks room(8);
      std::vector<Io> batch;
      for (std::size_t k = 0; k < 8; ++k) {
        batch.push_back({Io::Kind::read, (8 * i + k) * kBlockBytes, room.block(k), Status::ok});
      }
      store->run(batch, 2);  // so that some are not even started
      for (const Io& io : batch) EXPECT_EQ(io.status, Status::io_error);
    });
  }
  ASSERT_EQ(write(*store, 64, Blocks(1)), Status::ok);
  store->shut_down();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(write(*store, 64, Blocks(1)), Status::io_error);
  store->discard(0, 1);
}

TEST_F(NbdStore, ShutDownEndsAnAttemptToConnect) {
  start_server({"memory", "size=1M"});
  const auto opened = open_nbd_store(uri(), std::chrono::hours(1));
  ASSERT_TRUE(opened);
  kill_server();
  const base::Fd silent = listen_on(socket_);
  std::thread writer([&] {
    // The first finds that the connection has ended, or connects.
    for (int i = 0; i < 2; ++i) EXPECT_EQ(write(**opened, 9, Blocks(1)), Status::io_error);
  });
  const base::Fd client(::accept(silent.get(), nullptr, nullptr));
  EXPECT_TRUE(client);
  (*opened)->shut_down();
  writer.join();
}

TEST_F(NbdStore, ExportsThatAreNoStore) {
  start_server({"-r", "memory", "size=1M"});
  expect_refused(Status::read_only, "read-only");
  kill_server();
  start_server({"memory", "size=4095"});
  expect_refused(Status::invalid_argument, "4095 bytes, less than one block");
  kill_server();
  start_server({"--filter=blocksize-policy", "memory", "size=1M", "blocksize-minimum=64k",
                "blocksize-preferred=64k", "blocksize-maximum=1M"});
  expect_refused(Status::invalid_argument, "65536");
  kill_server();
  expect_refused(Status::not_found, "No such file");
}

TEST(NbdStoreUri, OtherKinds) {
  for (const std::string uri : {"nbds://localhost/", "nbds+unix:///?socket=/x", "nbd+vsock://1/",
                                "http://localhost/", "NBD://localhost/", "://"}) {
    const auto store = open_store(uri);
    ASSERT_FALSE(store) << uri;
    EXPECT_NE(store.error().status, Status::ok);
    EXPECT_EQ(store.error().message.substr(0, uri.size() + 2), uri + ": ");
  }
  EXPECT_FALSE(open_store("nbd+unix:///no-socket"));
}

TEST(NbdStoreUri, ServerThatKeepsSilent) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/socket";
  const base::Fd listener = listen_on(path);
  const auto store = open_nbd_store("nbd+unix:///?socket=" + path, std::chrono::milliseconds(20));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().status, Status::io_error);
  EXPECT_NE(store.error().message.find("no answer"), std::string::npos) << store.error().message;
}

}  // namespace
}  // namespace uzram::backing
