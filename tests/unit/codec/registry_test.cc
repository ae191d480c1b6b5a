#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <string>

#include "codec/codec.h"

namespace uzram::codec {
namespace {

TEST(Registry, ListsTheSameCodecsInBothPlaces) {
  const std::vector<CodecInfo> infos = uzram::codecs();
  ASSERT_EQ(infos.size(), registry().size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    EXPECT_EQ(infos[i].name, registry()[i]->info().name);
    EXPECT_EQ(find(infos[i].name), registry()[i]);
  }
}

TEST(Registry, KeepsTheListingOrder) {
  const std::vector<std::string> order = {"lz4", "lz4hc", "lzo", "zstd", "deflate"};
  std::size_t last = 0;
  for (const CodecInfo& info : uzram::codecs()) {
    const auto at =
        static_cast<std::size_t>(std::find(order.begin(), order.end(), info.name) - order.begin());
    ASSERT_LT(at, order.size()) << info.name;
    EXPECT_GE(at, last) << info.name;
    last = at;
  }
}

TEST(Registry, HasNoCodecOfAnotherName) {
  for (const char* name : {"", "lz", "LZ4", "lz4 ", "lzo-rle", "842", "none"}) {
    EXPECT_EQ(find(name), nullptr) << name;
  }
  EXPECT_EQ(find(std::string_view("lz4\0", 4)), nullptr);
}

TEST(CheckLevel, TakesTheWholeRangeAndTheDefault) {
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    EXPECT_EQ(check_level(*codec, std::nullopt).value(), info.level_default) << info.name;
    EXPECT_EQ(check_level(*codec, info.level_min).value(), info.level_min) << info.name;
    EXPECT_EQ(check_level(*codec, info.level_max).value(), info.level_max) << info.name;
  }
}

TEST(CheckLevel, NamesTheRangeWhenItRefuses) {
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    const bool levels = info.level_min != info.level_max;
    for (const int level : {info.level_min - 1, info.level_max + 1, INT_MIN, INT_MAX}) {
      const Result<int> result = check_level(*codec, level);
      ASSERT_FALSE(result) << info.name << " " << level;
      EXPECT_EQ(result.error().status, Status::invalid_argument);
      const std::string why = levels ? " takes " + std::to_string(info.level_min) + " to " +
                                           std::to_string(info.level_max)
                                     : " has no levels";
      EXPECT_EQ(result.error().message, "level " + std::to_string(level) + ": " + info.name + why);
    }
  }
}

}  // namespace
}  // namespace uzram::codec
