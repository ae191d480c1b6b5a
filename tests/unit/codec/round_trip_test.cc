// Every codec at every level gives back what it was given, on the pages that others tripped over.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/codec/codec_support.h"

namespace uzram::codec {
namespace {

constexpr std::uint64_t kSeed = 20240607;

struct Case {
  const Codec* codec;
  int level;
  bool dictionary = false;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    for (const int level : levels_of(info)) cases.push_back({codec, level});
    if (!info.dictionary) continue;
    for (const int level : {info.level_min, info.level_default, info.level_max}) {
      if (level == info.level_min && level == info.level_default) continue;
      cases.push_back({codec, level, true});
    }
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [codec, level, dictionary] = info.param;
  return codec->info().name + (level < 0 ? "_minus_" : "_") + std::to_string(std::abs(level)) +
         (dictionary ? "_dictionary" : "");
}

std::unique_ptr<Stream> stream_of(const Case& the_case) {
  static const DictionaryBytes dictionary = trained_dictionary(64 << 10);
  return stream_of(*the_case.codec, {.level = the_case.level,
                                     .dictionary = the_case.dictionary ? dictionary : nullptr});
}

// The distance between two sizes that are tried: all of them at the default level, fewer at others
// and fewest where a page takes a millisecond; both ends are always tried densely.
std::size_t step_of(const Case& the_case) {
  const CodecInfo& info = the_case.codec->info();
  if (the_case.level == info.level_default) return 1;
  return info.name != "lz4" && the_case.level >= 10 ? 61 : 7;
}

class RoundTrip : public testing::TestWithParam<Case> {
 protected:
  void run(Page (*make)(Random&, std::size_t), std::size_t bytes_max = kPageBytes) {
    const auto stream = stream_of(GetParam());
    const std::size_t step = step_of(GetParam());
    Random random(kSeed);
    Bench bench;
    for (std::size_t bytes = 0; bytes <= bytes_max; ++bytes) {
      if (bytes % step != 0 && bytes > 20 && bytes < kPageBytes - 20) continue;
      const Page page = make(random, bytes);
      const Packed packed = bench.pack(*stream, page);
      ASSERT_FALSE(packed.empty()) << "entropy bytes " << bytes;
      ASSERT_TRUE(bench.unpacks_to(*stream, packed, page)) << "entropy bytes " << bytes;
    }
  }
};

TEST_P(RoundTrip, RandomThenZeros) {
  run(random_then_zeros);
}

TEST_P(RoundTrip, ZerosThenRandom) {
  run(zeros_then_random);
}

TEST_P(RoundTrip, DecimalTextWithRunsOfZero) {
  run(decimal_text);
}

TEST_P(RoundTrip, YesTextWithDifferingTail) {
  run(yes_text, 70);
}

TEST_P(RoundTrip, ShrinksWhatCanBeShrunk) {
  const auto stream = stream_of(GetParam());
  Random random(kSeed);
  Bench bench;
  const bool shrunk = bench.pack(*stream, random_then_zeros(random, 1024)).size() < kPageBytes / 2;
  // lz4's first step at such a level is over the whole page.
  EXPECT_EQ(shrunk, GetParam().level < static_cast<int>(kPageBytes));
}

INSTANTIATE_TEST_SUITE_P(Codec, RoundTrip, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace uzram::codec
