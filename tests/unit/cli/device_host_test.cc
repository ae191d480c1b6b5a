#include "cli/device_host.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "control/attributes.h"
#include "tests/support/fake_store.h"
#include "tests/support/nbd_client.h"
#include "tests/support/temp_dir.h"

namespace uzram::cli {
namespace {

constexpr std::uint64_t kSizeBytes = std::uint64_t{1} << 20;

class DeviceHostTest : public testing::Test {
 protected:
  std::unique_ptr<DeviceHost> make(StartOptions start) {
    start.name = "a";
    auto host = std::make_unique<DeviceHost>(start, files_, base::Fd(::eventfd(0, EFD_CLOEXEC)));
    const auto up = host->bring_up();
    EXPECT_TRUE(up.has_value()) << up.error().message;
    return host;
  }
  std::unique_ptr<DeviceHost> make_with_nbd() {
    StartOptions start;
    start.attachments = {{"nbd", "unix:" + socket_}};
    return make(start);
  }
  control::DeviceRecord published() const { return control::read_record(files_.record).value(); }

  test::TempDir temp_;
  const std::string socket_ = temp_.path() + "/nbd";
  const control::DeviceFiles files_ = {temp_.path() + "/a.lock", temp_.path() + "/a.sock",
                                       temp_.path() + "/a.json", temp_.path() + "/a.nbd",
                                       temp_.path() + "/a.loop"};
};

TEST_F(DeviceHostTest, GoesFromNewToRunningAndBack) {
  const auto host = make_with_nbd();
  EXPECT_EQ(published().size_bytes, 0U);
  EXPECT_EQ(host->device(), nullptr);
  EXPECT_EQ(host->lines(), "");
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  EXPECT_EQ(published(), host->record());
  EXPECT_EQ(host->record().size_bytes, kSizeBytes);
  EXPECT_EQ(host->record().attachments.size(), 1U);
  EXPECT_EQ(host->init(kSizeBytes).error().status, Status::busy);
  ASSERT_TRUE(host->drop().has_value());
  EXPECT_EQ(published(), host->record());
  EXPECT_EQ(host->device(), nullptr);
  EXPECT_EQ(host->record().attachments.size(), 0U);
  EXPECT_EQ(host->reset(false).error().status, Status::no_device);
  EXPECT_EQ(host->attach("nbd", "").error().status, Status::no_device);
}

TEST_F(DeviceHostTest, AnotherSizeIsPublishedAndOneThatIsRefusedIsNot) {
  const auto host = make_with_nbd();
  EXPECT_EQ(host->resize(kSizeBytes).error().status, Status::no_device);
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  ASSERT_TRUE(control::write_attribute(*host, "resize", "2097153").has_value());
  EXPECT_EQ(published().size_bytes, 2 * kSizeBytes + kPageBytes);
  EXPECT_EQ(published(), host->record());
  EXPECT_EQ(control::read_attribute(*host, "disksize").value(), "2101248");
  const std::vector<std::byte> page(kPageBytes, std::byte{1});
  ASSERT_EQ(host->device()->write(2 * kSizeBytes, page), Status::ok);
  EXPECT_EQ(control::write_attribute(*host, "resize", "1M").error().status, Status::busy);
  EXPECT_EQ(published().size_bytes, 2 * kSizeBytes + kPageBytes);
  ASSERT_TRUE(host->drop().has_value());
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  EXPECT_EQ(published().size_bytes, kSizeBytes);
}

TEST_F(DeviceHostTest, AChangeThatFailsChangesNothing) {
  const auto host = make_with_nbd();
  const auto done = host->configure([](DeviceOptions& options) -> Result<void> {
    options.codec = "zstd";
    return fail(Status::invalid_argument, "no");
  });
  EXPECT_FALSE(done.has_value());
  EXPECT_EQ(host->options().codec, "lz4");
}

TEST_F(DeviceHostTest, AnInitThatFailsLeavesItNew) {
  std::ofstream(socket_) << "taken";
  const auto host = make_with_nbd();
  EXPECT_FALSE(host->init(kSizeBytes).has_value());
  EXPECT_EQ(host->device(), nullptr);
  EXPECT_EQ(published().size_bytes, 0U);
  EXPECT_TRUE(host->drop().has_value());
}

TEST_F(DeviceHostTest, APassDoesNotHoldUpADrop) {
  const auto host = make_with_nbd();
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  const std::vector<std::byte> page(kPageBytes, std::byte{1});
  const auto passed = host->run_pass([&](Device& device) -> Result<void> {
    EXPECT_EQ(device.write(0, page), Status::ok);
    EXPECT_EQ(host->run_pass([](Device&) -> Result<void> { return {}; }).error().status,
              Status::would_block);
    EXPECT_TRUE(host->drop().has_value());
    EXPECT_EQ(device.stats().orig_data_size, 0U) << "what is still held is empty";
    EXPECT_TRUE(host->init(kSizeBytes).has_value());
    return {};
  });
  EXPECT_TRUE(passed.has_value());
  EXPECT_TRUE(host->run_pass([](Device&) -> Result<void> { return {}; }).has_value());
  ASSERT_TRUE(host->drop().has_value());
  EXPECT_EQ(host->run_pass([](Device&) -> Result<void> { return {}; }).error().status,
            Status::invalid_argument);
}

TEST_F(DeviceHostTest, WhoAsksMeetsADeviceOrNone) {
  const auto host = make_with_nbd();
  std::atomic<bool> end{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      while (!end) {
        const control::DeviceRecord record = host->record();
        EXPECT_TRUE(record.attachments.empty() || record.size_bytes != 0);
        EXPECT_EQ(host->clients(), 0U);
        const control::View view = control::view_of(*host);
        EXPECT_EQ(view.running, view.options.size_bytes != 0);
        static_cast<void>(control::write_attribute(*host, "mem_limit", "1M"));
        static_cast<void>(control::write_attribute(*host, "compact", "1"));
      }
    });
  }
  for (int round = 0; round < 30; ++round) {
    EXPECT_TRUE(host->init(kSizeBytes).has_value());
    EXPECT_TRUE(host->drop().has_value());
  }
  end = true;
  for (std::thread& asker : askers) asker.join();
}

// A device with pages on a store that does not answer, and a client that waits for one of them.
class DeadStoreTest : public DeviceHostTest {
 protected:
  void SetUp() override {
    StartOptions start;
    start.name = "a";
    start.attachments = {{"nbd", "unix:" + socket_}};
    start.device.backing = store_;
    start.device.size_bytes = kSizeBytes;
    host_ = std::make_unique<DeviceHost>(start, files_, base::Fd(::eventfd(0, EFD_CLOEXEC)),
                                         std::chrono::milliseconds(0));
    ASSERT_TRUE(host_->bring_up().has_value());
    ASSERT_EQ(host_->device()->write(0, test::pattern(kPageBytes, 1)), Status::ok);
    ASSERT_TRUE(host_->device()->write_back({}).has_value());
    ASSERT_EQ(host_->device()->stats().bd_count, 1U);
    store_->hold(test::FakeStore::Kind::read);
    client_ = std::make_unique<test::NbdClient>(socket_);
    ASSERT_TRUE(client_->enter(false));
    ASSERT_TRUE(client_->send(test::encode_command({.length = kPageBytes})));
    store_->wait_until_held(1);
  }

  const std::shared_ptr<test::FakeStore> store_ = std::make_shared<test::FakeStore>(64);
  std::unique_ptr<DeviceHost> host_;
  std::unique_ptr<test::NbdClient> client_;
};

TEST_F(DeadStoreTest, AForcedStopGivesItUp) {
  EXPECT_TRUE(host_->stop(true).has_value());
  EXPECT_EQ(host_->record().attachments.size(), 0U);
}

TEST_F(DeadStoreTest, AStopGivesItUpInTheEnd) {
  EXPECT_TRUE(host_->stop(false).has_value());
}

TEST_F(DeadStoreTest, TheProcessEndsAllTheSame) {
  host_->shut_down();
  host_.reset();
}

TEST_F(DeadStoreTest, AResetOfADeviceInUseDoesNotTouchIt) {
  EXPECT_EQ(host_->drop().error().status, Status::busy);
  store_->release();
  EXPECT_EQ(client_->receive_reply(kPageBytes).data, test::pattern(kPageBytes, 1));
}

TEST_F(DeviceHostTest, APassThatWaitsForTheStoreIsLeftByAReset) {
  StartOptions start;
  const auto store = std::make_shared<test::FakeStore>(64);
  start.device.backing = store;
  const auto host = make(start);
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  ASSERT_EQ(host->device()->write(0, test::pattern(kPageBytes, 1)), Status::ok);
  store->hold(test::FakeStore::Kind::write);
  std::thread pass([&] {
    EXPECT_FALSE(host->run_pass([](Device& device) -> Result<void> {
      const auto moved = device.write_back({});
      if (!moved) return tl::unexpected(moved.error());
      return {};
    }));
  });
  store->wait_until_held(1);
  EXPECT_TRUE(host->drop().has_value());
  EXPECT_EQ(host->options().backing, nullptr);
  pass.join();
}

TEST_F(DeviceHostTest, LimitsOfWriteBackBeforeAndAfterTheSize) {
  StartOptions start;
  start.device.backing = std::make_shared<test::FakeStore>(64);
  const auto host = make(start);
  const auto set_batch = [&](std::uint32_t size) {
    return host->limit_write_back({.batch_size = size});
  };
  ASSERT_TRUE(set_batch(3).has_value());
  EXPECT_EQ(host->options().write_back.batch_size, 3U);
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  EXPECT_EQ(host->device()->write_back_limits().batch_size, 3U);
  ASSERT_TRUE(set_batch(4).has_value());
  EXPECT_EQ(host->device()->write_back_limits().batch_size, 4U);
  EXPECT_EQ(published().backing, "fake");
  EXPECT_EQ(published().backing_size_bytes, 64 * kPageBytes);
  ASSERT_TRUE(host->drop().has_value());
  EXPECT_EQ(published().backing, "");
}

TEST_F(DeviceHostTest, AfterStopNothingIsBegun) {
  const auto host = make_with_nbd();
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  ASSERT_TRUE(host->stop(false).has_value());
  EXPECT_EQ(host->attach("nbd", "").error().status, Status::shutting_down);
  EXPECT_EQ(host->drop().error().status, Status::shutting_down);
  EXPECT_EQ(host->resize(kSizeBytes).error().status, Status::shutting_down);
  EXPECT_EQ(host->configure([](DeviceOptions&) -> Result<void> { return {}; }).error().status,
            Status::shutting_down);
}

}  // namespace
}  // namespace uzram::cli
