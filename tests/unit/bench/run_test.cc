#include "bench/run.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/floor.h"
#include "bench/load.h"
#include "bench/report.h"
#include "tests/support/fake_device.h"

namespace uzram::bench {
namespace {

constexpr std::uint64_t kSize = 2 << 20;

Options small_options() {
  Options options;
  options.device.size_bytes = kSize;
  return options;
}

class RunProfile : public testing::Test {
 protected:
  RunResult run(const Options& options, Profile profile) {
    Result<RunResult> result = run_profile(options, profile, pages_, device_);
    if (!result) ADD_FAILURE() << result.error().message;
    return result ? std::move(*result) : RunResult();
  }

  SourcePages pages_ = SourcePages::make({}, 1).value();
  test::FakeDevice device_{kSize};
};

TEST_F(RunProfile, EachRecordIsVisitedOnce) {
  for (const Profile profile : {Profile::seq_read, Profile::rand_read, Profile::seq_write,
                                Profile::rand_write, Profile::mixed_seq, Profile::mixed_rand}) {
    for (const unsigned threads : {1U, 3U}) {
      Options options = small_options();
      options.threads = threads;
      options.batch = 7;
      const RunResult result = run(options, profile);
      const std::uint64_t records = kSize / 4096;
      EXPECT_EQ(result.measured.requests, records);
      EXPECT_EQ(result.measured.bytes, kSize);
      EXPECT_GT(result.iops, 0);
      const std::uint64_t fills = traits_of(profile).empty ? 0 : kSize / (64 * 4096);
      EXPECT_EQ(result.stats.reads + result.stats.writes, records + fills);
      if (traits_of(profile).read_percent == 50) {
        EXPECT_NEAR(static_cast<double>(result.stats.reads), static_cast<double>(records) / 2,
                    static_cast<double>(records) / 8);
      } else {
        EXPECT_EQ(result.stats.reads, traits_of(profile).read_percent == 100 ? records : 0);
      }
    }
  }
}

TEST_F(RunProfile, ReadsSeeTheFill) {
  run(small_options(), Profile::seq_read);
  std::vector<std::byte> page(kPageBytes);
  for (std::uint64_t i = 0; i < kSize / kPageBytes; ++i) {
    ASSERT_EQ(device_.read(i * kPageBytes, page), Status::ok);
    ASSERT_EQ(std::memcmp(page.data(), pages_.page(i).data(), kPageBytes), 0) << i;
  }
}

TEST_F(RunProfile, RunsForItsTimeOverAndOver) {
  Options options = small_options();
  options.seconds = 1;
  const RunResult result = run(options, Profile::rand_read);
  EXPECT_GT(result.measured.requests, kSize / 4096);
  EXPECT_GE(result.measured.seconds, 0.99);
  EXPECT_LT(result.measured.seconds, 5);
}

TEST_F(RunProfile, FloorAndDeviceTakeTurns) {
  Options options = small_options();
  options.floor = true;
  options.record_bytes = 8192;
  options.threads = 3;
  options.batch = 4;
  for (const Profile profile :
       {Profile::seq_write, Profile::rand_write, Profile::rand_read, Profile::mixed_rand}) {
    for (const DeviceType type : {DeviceType::zram, DeviceType::ram}) {
      options.device.type = type;
      const RunResult result = run(options, profile);
      ASSERT_EQ(result.rounds.size(), 3U);
      for (const Round& round : result.rounds) EXPECT_GT(round.floor_iops.value_or(0), 0);
      EXPECT_EQ(result.measured.requests, 3 * kSize / 8192);
      EXPECT_GT(result.floor_ratio().value_or(0), 0);
      // Each round of such a profile starts on an empty device, whose counters start anew.
      if (traits_of(profile).empty) {
        EXPECT_EQ(result.stats.writes, kSize / 8192);
      }
    }
  }
  EXPECT_FALSE(run(options, Profile::verify).floor_ratio());
}

TEST_F(RunProfile, AFailedRequestEndsTheRun) {
  device_.fail_next(Op::read, Status::io_error);
  const auto result = run_profile(small_options(), Profile::rand_read, pages_, device_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, Status::io_error);
  EXPECT_NE(result.error().message.find("rand-read: read of 4096 bytes at "), std::string::npos);
}

TEST_F(RunProfile, MoreThanTheMachineHasIsRefused) {
  Options options = small_options();
  options.device.size_bytes = kSizeMax;
  const auto result = run_profile(options, Profile::seq_write, pages_, device_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, Status::no_memory);
  EXPECT_NE(result.error().message.find("size 16.0T: these pages need"), std::string::npos);
}

TEST(Floor, HoldsWhatWasWritten) {
  for (const DataKind kind : {DataKind::half, DataKind::zero, DataKind::random}) {
    for (const DeviceType type : {DeviceType::zram, DeviceType::ram}) {
      Options options = small_options();
      options.device.type = type;
      const SourcePages pages = SourcePages::make({kind, {}}, 1).value();
      const PackedSizes sizes = measure_packed(options.device, pages).value();
      Floor floor = Floor::make(options.device, sizes).value();
      Floor::Lane lane = floor.make_lane().value();
      std::vector<std::byte> out(kPageBytes);
      const auto submit = [&lane](Op op, std::uint64_t page, const std::byte* data) {
        Request request{.op = op,
                        .offset = page * kPageBytes,
                        .length = kPageBytes,
                        .data = const_cast<std::byte*>(data)};
        lane.submit({&request, 1});
        return request.status;
      };
      constexpr std::uint64_t kCount = kSize / kPageBytes;
      for (std::uint64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(submit(Op::write, kCount - 1 - i, pages.page(i).data()), Status::ok);
      }
      for (std::uint64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(submit(Op::read, kCount - 1 - i, out.data()), Status::ok);
        ASSERT_EQ(std::memcmp(out.data(), pages.page(i).data(), kPageBytes), 0);
      }
    }
  }
}

TEST(Load, SmallSubmissionsAreSampledAtAnOddInterval) {
  for (std::uint64_t batch = 1; batch <= kBatchMax; ++batch) {
    for (const std::uint64_t record : {512U, 4096U, 65536U}) {
      const unsigned interval = timing_interval(batch, record);
      ASSERT_EQ(interval % 2, 1U);
      ASSERT_LE(interval, 17U);
    }
  }
  EXPECT_EQ(timing_interval(1, 4096), 17U);
  EXPECT_EQ(timing_interval(16, 512), 1U);
  EXPECT_EQ(timing_interval(1, 65536), 1U);
}

TEST(Report, JsonHasEveryField) {
  RunResult run;
  run.profile = Profile::mixed_rand;
  run.options = small_options();
  run.options.device.params.level = 3;
  run.options.data = {DataKind::file, "not\xff utf-8"};
  run.iops = 1000;
  run.measured.seconds = 2;
  run.measured.requests = 1000000;
  run.measured.usage = {1.0, 0.5, 1.5, 7, 8};
  run.measured.latency.record(1500);
  run.rounds = {{1000, std::nullopt}};
  const std::vector<RunResult> runs(2, run);
  const auto json = nlohmann::json::parse(json_of(runs));
  ASSERT_EQ(json.size(), 2U);
  const auto& first = json[0];
  EXPECT_EQ(first["profile"], "mixed-rand");
  EXPECT_EQ(first["algo"], "lz4");
  EXPECT_EQ(first["level"], 3);
  EXPECT_EQ(first["size"], kSize);
  EXPECT_EQ(first["record"], 4096);
  EXPECT_EQ(first["iops"], 1000);
  EXPECT_EQ(first["bytes_per_s"], 4096000);
  EXPECT_EQ(first["lat_us"]["p999"], 1.5);
  EXPECT_EQ(first["cpu"]["usr_pct"], 50);
  EXPECT_EQ(first["cpu"]["sys_pct"], 25);
  EXPECT_EQ(first["cpu_us_per_request"], 1.5);
  EXPECT_EQ(first["ctx_voluntary"], 7);
  EXPECT_EQ(first["ctx_involuntary"], 8);
  EXPECT_TRUE(first["floor_iops"].is_null());
  for (const char* name : {"type", "threads", "batch", "seconds", "seed", "data", "orig_data_size",
                           "compr_data_size", "mem_used_total", "rss_bytes"}) {
    EXPECT_TRUE(first.contains(name)) << name;
  }
  for (const char* name : {"p50", "p99", "p999", "max"}) {
    EXPECT_TRUE(first["lat_us"].contains(name)) << name;
  }
  run.floor_iops = 2000;
  EXPECT_EQ(nlohmann::json::parse(json_of({&run, 1}))[0]["floor_ratio"], 0.5);
}

TEST(Report, RowsLineUpWithTheHeader) {
  RunResult run;
  run.measured.seconds = 1;
  const std::string header = table_header(run.options);
  EXPECT_EQ(header.size() - header.find('\n') - 1, table_row(run).size());
}

}  // namespace
}  // namespace uzram::bench
