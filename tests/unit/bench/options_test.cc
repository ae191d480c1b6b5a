#include "bench/options.h"

#include <gtest/gtest.h>

#include <functional>

namespace uzram::bench {
namespace {

// The message of the refusal, empty when the options are accepted.
std::string refusal(const std::function<void(Options&)>& change) {
  Options options;
  change(options);
  const Result<void> result = check(options);
  if (result) return "";
  EXPECT_EQ(result.error().status, Status::invalid_argument);
  return result.error().message;
}

TEST(Options, DefaultsAreAccepted) {
  EXPECT_EQ(refusal([](Options&) {}), "");
  EXPECT_EQ(Options().device.size_bytes, std::uint64_t{1} << 30);
}

TEST(Options, ValuesOutsideOfTheirRangesAreNamed) {
  EXPECT_EQ(refusal([](Options& o) { o.threads = 0; }), "threads 0: outside of 1 to 256");
  EXPECT_EQ(refusal([](Options& o) { o.threads = 257; }), "threads 257: outside of 1 to 256");
  EXPECT_EQ(refusal([](Options& o) { o.batch = 0; }), "batch 0: outside of 1 to 1024");
  EXPECT_EQ(refusal([](Options& o) { o.record_bytes = 511; }),
            "record 511: outside of 512 to 4194304");
  EXPECT_NE(refusal([](Options& o) { o.record_bytes = kRecordMax + 1; }), "");
  EXPECT_NE(refusal([](Options& o) { o.seconds = kSecondsMax + 1; }), "");
  EXPECT_NE(refusal([](Options& o) { o.device.size_bytes = 0; }), "");
  EXPECT_NE(refusal([](Options& o) { o.device.size_bytes = kSizeMax + 1; }), "");
}

TEST(Options, ValuesMustFitEachOther) {
  EXPECT_EQ(refusal([](Options& o) {
              o.device.size_bytes = 4096 * 3;
              o.threads = 4;
            }),
            "size 12288: less than one record of 4096 bytes for each of 4 threads");
  EXPECT_NE(refusal([](Options& o) { o.device.size_bytes = 4095; }), "");
  EXPECT_NE(refusal([](Options& o) {
              o.batch = kBatchMax;
              o.record_bytes = kRecordMax;
            }).find("buffers"),
            std::string::npos);
  const auto sub_page_floor = [](Options& o) {
    o.record_bytes = 512;
    o.floor = true;
  };
  EXPECT_NE(refusal(sub_page_floor).find("record 512: the floor"), std::string::npos);
}

TEST(Options, CodecAndLevelAreChecked) {
  EXPECT_NE(refusal([](Options& o) { o.device.codec = "lz77"; }).find("'lz77': not one of lz4"),
            std::string::npos);
  EXPECT_NE(
      refusal([](Options& o) { o.device.params.level = -1; }).find("level -1: lz4 takes 1 to"),
      std::string::npos);
  EXPECT_EQ(refusal([](Options& o) {
              o.device.type = DeviceType::ram;
              o.device.codec = "";
            }),
            "");
}

TEST(Profiles, AllMeansEachOnce) {
  const std::vector<Profile> all = parse_profiles("all").value();
  EXPECT_EQ(all.size(), 7U);
  for (const Profile profile : all) {
    const std::vector<Profile> one = parse_profiles(traits_of(profile).name).value();
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one.front(), profile);
  }
  for (const char* text : {"", "rand", "ALL", "seq-read ", "all,verify"}) {
    ASSERT_FALSE(parse_profiles(text).has_value()) << text;
    EXPECT_NE(parse_profiles(text).error().message.find("'" + std::string(text) + "'"),
              std::string::npos);
  }
}

TEST(DataOption, IsParsedAndPrinted) {
  for (const char* text : {"half", "zero", "random", "file:/etc/passwd", "file:a:b"}) {
    EXPECT_EQ(describe(parse_data(text).value()), text);
  }
  for (const char* text : {"", "file:", "File:x", "halfs", "/etc/passwd"}) {
    EXPECT_FALSE(parse_data(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace uzram::bench
