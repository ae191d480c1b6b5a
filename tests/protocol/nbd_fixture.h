// An NBD server on a fake device, in the test's own process.
//
// What: a server on a Unix socket in a directory of its own; tests change `options` before they
// start
//   it. Units: bytes. Ownership: takes the directory away again. Threading: one thread.
// Errors: expectations of GoogleTest.
#ifndef UZRAM_TESTS_PROTOCOL_NBD_FIXTURE_H_
#define UZRAM_TESTS_PROTOCOL_NBD_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "attach/nbd/server.h"
#include "tests/support/fake_device.h"
#include "tests/support/nbd_client.h"

namespace uzram::test {

namespace nbd = attach::nbd;

// The numbers of the protocol's "Error values", written out: the tests don't trust the server's.
inline constexpr std::uint32_t kEperm = 1, kEio = 5, kEinval = 22, kEnospc = 28;

class NbdServerTest : public ::testing::Test {
 protected:
  NbdServerTest() {
    char name[] = "/tmp/uzram-nbd-test-XXXXXX";
    directory_ = ::mkdtemp(name);
    options.address.path = directory_ + "/s";
    options.export_name = "disk0";
    options.description = "for tests";
  }
  ~NbdServerTest() override {
    server.reset();
    std::filesystem::remove_all(directory_);
  }

  void start(std::uint64_t size_bytes = std::uint64_t{1} << 20, bool read_only = false) {
    device = std::make_unique<FakeDevice>(size_bytes, read_only);
    auto started = attach::start_nbd(*device, options);
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  NbdClient connect() const { return NbdClient(options.address.path); }
  // A client in the transmission phase.
  NbdClient enter(bool structured = false, bool contexts = false) const {
    NbdClient client = connect();
    EXPECT_TRUE(client.enter(structured, contexts));
    return client;
  }

  static long open_files() { return entries("/proc/self/fd"); }
  static long threads() { return entries("/proc/self/task"); }

  attach::NbdOptions options;
  std::unique_ptr<FakeDevice> device;
  std::unique_ptr<attach::Attachment> server;

 private:
  static long entries(const char* directory) {
    return std::distance(std::filesystem::directory_iterator(directory), {});
  }
  std::string directory_;
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_PROTOCOL_NBD_FIXTURE_H_
