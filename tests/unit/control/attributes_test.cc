#include "control/attributes.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <sstream>

#include "tests/unit/control/fake_host.h"

namespace uzram::control {
namespace {

std::string get(const Device& device, std::string_view name) {
  const auto value = read_attribute(device, name);
  return value ? *value : "error: " + value.error().message;
}

Status set(Host& host, std::string_view name, std::string_view value) {
  const auto done = write_attribute(host, name, value);
  return done ? Status::ok : done.error().status;
}

// Answers with counters that are all different, so that a column in the wrong place is seen.
class CountingDevice final : public Device {
 public:
  CountingDevice() {
    std::uint64_t next = 1;
    for (const Attribute& attribute : attributes()) {
      if (attribute.counter != nullptr) stats_.*attribute.counter = next++;
    }
  }
  void submit(std::span<Request>) noexcept override {}
  std::size_t extents(std::uint64_t, std::uint64_t, std::span<Extent>) const noexcept override {
    return 0;
  }
  void reset() noexcept override {}
  Stats stats() const noexcept override { return stats_; }
  void set_mem_limit(std::uint64_t) noexcept override {}
  void reset_mem_used_max() noexcept override {}
  void compact() noexcept override {}
  const DeviceOptions& options() const noexcept override { return options_; }

 private:
  DeviceOptions options_{.size_bytes = kPageBytes};
  Stats stats_;
};

TEST(Attributes, EveryCounterHasOneRow) {
  std::set<std::string_view> names;
  std::size_t counters = 0;
  for (const Attribute& attribute : attributes()) {
    EXPECT_TRUE(names.insert(attribute.name).second) << attribute.name;
    EXPECT_FALSE(attribute.help.empty()) << attribute.name;
    EXPECT_TRUE(attribute.readable() || attribute.writable()) << attribute.name;
    if (attribute.counter != nullptr) ++counters;
  }
  EXPECT_EQ(counters, sizeof(Stats) / sizeof(std::uint64_t));
}

TEST(Attributes, StatColumnsAreTheKernels) {
  const CountingDevice device;
  const Stats s = device.stats();
  std::ostringstream mm_stat;
  mm_stat << s.orig_data_size << ' ' << s.compr_data_size << ' ' << s.mem_used_total << ' '
          << s.mem_limit << ' ' << s.mem_used_max << ' ' << s.same_pages << ' ' << s.pages_compacted
          << ' ' << s.huge_pages << ' ' << s.huge_pages_since;
  EXPECT_EQ(get(device, "mm_stat"), mm_stat.str());
  std::ostringstream io_stat;
  io_stat << s.failed_reads << ' ' << s.failed_writes << ' ' << s.invalid_io << ' '
          << s.notify_free;
  EXPECT_EQ(get(device, "io_stat"), io_stat.str());
}

TEST(Attributes, ReadsWhatTheDeviceIs) {
  const CountingDevice device;
  EXPECT_EQ(get(device, "disksize"), "4096");
  EXPECT_EQ(get(device, "initstate"), "1");
  EXPECT_NE(get(device, "comp_algorithm").find("[lz4]"), std::string::npos);
  test::FakeHost ram;
  EXPECT_EQ(get(ram.device(), "comp_algorithm").find('['), std::string::npos);
}

TEST(Attributes, MemLimitIsRoundedUpToAPageAndZeroIsOff) {
  test::FakeHost host;
  for (const auto& [value, bytes] : std::initializer_list<std::pair<const char*, std::uint64_t>>{
           {"1", 4096},
           {"4097", 8192},
           {"1M", 1 << 20},
           {"8388607T", std::uint64_t{8388607} << 40}}) {
    EXPECT_EQ(set(host, "mem_limit", value), Status::ok) << value;
    EXPECT_EQ(host.device().options().mem_limit_bytes, bytes) << value;
  }
  EXPECT_EQ(set(host, "mem_limit", "0"), Status::ok);
  EXPECT_EQ(host.device().options().mem_limit_bytes, 0U);
}

TEST(Attributes, BadValuesAreRefusedAndChangeNothing) {
  test::FakeHost host;
  ASSERT_EQ(set(host, "mem_limit", "1M"), Status::ok);
  for (const char* value : {"", "-1", "1e3", "4 KiB", "16E", "0x", "99999999999999999999"}) {
    EXPECT_EQ(set(host, "mem_limit", value), Status::invalid_argument) << value;
    EXPECT_EQ(set(host, "disksize", value), Status::invalid_argument) << value;
  }
  EXPECT_EQ(host.device().options().mem_limit_bytes, 1U << 20);
  EXPECT_EQ(set(host, "mem_used_max", "1"), Status::invalid_argument);
  EXPECT_EQ(set(host, "mem_used_max", ""), Status::invalid_argument);
  EXPECT_EQ(set(host, "reset", "0"), Status::invalid_argument);
  EXPECT_EQ(set(host, "reset", "yes"), Status::invalid_argument);
  EXPECT_TRUE(host.acts.empty());
}

TEST(Attributes, WhatIsChosenAtStartIsBusyAfterwards) {
  test::FakeHost host;
  EXPECT_EQ(set(host, "disksize", "0"), Status::invalid_argument);
  EXPECT_EQ(set(host, "disksize", "1G"), Status::busy);
  EXPECT_EQ(set(host, "comp_algorithm", "lz4"), Status::busy);
  const auto unknown = write_attribute(host, "comp_algorithm", "nosuch");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().status, Status::invalid_argument);
  EXPECT_NE(unknown.error().message.find(codec_names()), std::string::npos);
}

TEST(Attributes, AccessIsKept) {
  test::FakeHost host;
  EXPECT_EQ(set(host, "mm_stat", "1"), Status::permission);
  EXPECT_EQ(set(host, "initstate", "0"), Status::permission);
  EXPECT_EQ(read_attribute(host.device(), "reset").error().status, Status::permission);
  EXPECT_EQ(read_attribute(host.device(), "compact").error().status, Status::permission);
  EXPECT_EQ(read_attribute(host.device(), "nosuch").error().status, Status::invalid_argument);
  EXPECT_EQ(set(host, "", "1"), Status::invalid_argument);
  const auto unknown = read_attribute(host.device(), "nosuch").error().message;
  EXPECT_NE(unknown.find("mm_stat"), std::string::npos);
}

TEST(Attributes, ResetIsRefusedWhileInUse) {
  test::FakeHost host;
  host.clients_now = 1;
  EXPECT_EQ(set(host, "reset", "1"), Status::busy);
  EXPECT_TRUE(host.acts.empty());
  host.clients_now = 0;
  EXPECT_EQ(set(host, "reset", "1"), Status::ok);
  EXPECT_EQ(host.acts, std::vector<std::string>{"reset"});
}

TEST(RoundUpToPage, NeverWrapsAndNeverRoundsDown) {
  EXPECT_EQ(round_up_to_page(0), 0U);
  EXPECT_EQ(round_up_to_page(1), 4096U);
  EXPECT_EQ(round_up_to_page(4096), 4096U);
  EXPECT_EQ(round_up_to_page(4097), 8192U);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax - 4095), kDeviceBytesMax - 4095);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax - 4094), kDeviceBytesMax);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax), kDeviceBytesMax);
}

}  // namespace
}  // namespace uzram::control
