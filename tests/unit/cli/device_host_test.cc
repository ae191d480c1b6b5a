#include "cli/device_host.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "control/attributes.h"
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

TEST_F(DeviceHostTest, AfterStopNothingIsBegun) {
  const auto host = make_with_nbd();
  ASSERT_TRUE(host->init(kSizeBytes).has_value());
  ASSERT_TRUE(host->stop(false).has_value());
  EXPECT_EQ(host->attach("nbd", "").error().status, Status::shutting_down);
  EXPECT_EQ(host->drop().error().status, Status::shutting_down);
  EXPECT_EQ(host->configure([](DeviceOptions&) -> Result<void> { return {}; }).error().status,
            Status::shutting_down);
}

}  // namespace
}  // namespace uzram::cli
