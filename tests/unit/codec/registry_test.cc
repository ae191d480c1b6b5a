#include <gtest/gtest.h>

#include <algorithm>
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
  for (const char* name : {"", "lz", "LZ4", "lz4 ", "lzo-", "842", "none"}) {
    EXPECT_EQ(find(name), nullptr) << name;
  }
  EXPECT_EQ(find(std::string_view("lz4\0", 4)), nullptr);
}

TEST(Registry, TakesLzoRleForLzo) {
  EXPECT_EQ(find("lzo-rle"), find("lzo"));
  EXPECT_EQ(find("lzo-rle2"), nullptr);
  for (const CodecInfo& info : uzram::codecs()) EXPECT_NE(info.name, "lzo-rle");
}

}  // namespace
}  // namespace uzram::codec
