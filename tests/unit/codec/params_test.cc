// Parameters are judged when they are set: what check_params lets pass makes streams that work.
#include <gtest/gtest.h>

#include <climits>
#include <string>

#include "tests/unit/codec/codec_support.h"

namespace uzram::codec {
namespace {

DictionaryBytes bytes_of(std::vector<std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// What check_params says against `params`.
Error refusal(const Codec& codec, const CodecParams& params) {
  const auto options = check_params(codec, params);
  return options ? Error{Status::ok, "taken"} : options.error();
}

TEST(CheckParams, TakesTheWholeRangeOfLevelsAndTheDefault) {
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    EXPECT_EQ(check_params(*codec, {}).value().level, info.level_default) << info.name;
    for (const int level : {info.level_min, info.level_max}) {
      const StreamOptions options = check_params(*codec, {.level = level}).value();
      EXPECT_EQ(options.level, level) << info.name;
      EXPECT_EQ(options.dictionary, nullptr) << info.name;
    }
  }
}

TEST(CheckParams, NamesTheRangeOfLevelsWhenItRefuses) {
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    const bool levels = info.level_min != info.level_max;
    const std::string why = levels ? " takes " + std::to_string(info.level_min) + " to " +
                                         std::to_string(info.level_max)
                                   : " has no levels";
    for (const int level : {info.level_min - 1, info.level_max + 1, INT_MIN, INT_MAX}) {
      const Error error = refusal(*codec, {.level = level});
      EXPECT_EQ(error.status, Status::invalid_argument) << info.name << " " << level;
      EXPECT_EQ(error.message, "level " + std::to_string(level) + ": " + info.name + why);
    }
  }
}

TEST(CheckParams, WindowBitsAreForDeflateAlone) {
  for (const Codec* codec : registry()) {
    const std::string& name = codec->info().name;
    for (const int bits : {INT_MIN, -16, -15, -11, -8, -7, -1, 0, 7, 8, 12, 15, 16, INT_MAX}) {
      const bool in_range = (bits >= 8 && bits <= 15) || (bits >= -15 && bits <= -8);
      const bool taken = name == "deflate" && in_range;
      const Error error = refusal(*codec, {.window_bits = bits});
      EXPECT_EQ(error.status, taken ? Status::ok : Status::invalid_argument) << name << " " << bits;
      if (!taken) {
        EXPECT_NE(error.message.find(std::to_string(bits) + ": " + name), std::string::npos);
      }
    }
  }
}

TEST(CheckParams, DictionariesAreForTheCodecsThatSaySo) {
  const DictionaryBytes dictionary = plain_dictionary(1000);
  std::string takers;
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    if (info.dictionary) takers += info.name + " ";
    const Error error = refusal(*codec, {.dictionary = dictionary});
    EXPECT_EQ(error.status, info.dictionary ? Status::ok : Status::not_supported) << info.name;
    if (!info.dictionary) {
      EXPECT_EQ(error.message, "dictionary: " + info.name + " takes none");
    }
  }
  EXPECT_EQ(takers, "lz4 lz4hc zstd ");
}

TEST(CheckParams, BoundsTheSizeOfADictionary) {
  for (const Codec* codec : registry()) {
    if (!codec->info().dictionary) continue;
    SCOPED_TRACE(codec->info().name);
    EXPECT_EQ(refusal(*codec, {.dictionary = bytes_of({})}).status, Status::invalid_argument);
    EXPECT_EQ(refusal(*codec, {.dictionary = plain_dictionary(1)}).status, Status::ok);
    EXPECT_EQ(refusal(*codec, {.dictionary = plain_dictionary(kDictionaryBytesMax)}).status,
              Status::ok);
    EXPECT_EQ(refusal(*codec, {.dictionary = plain_dictionary(kDictionaryBytesMax + 1)}).status,
              Status::invalid_argument);
  }
}

TEST(CheckParams, ALevelOutOfRangeIsToldWithADictionaryToo) {
  for (const Codec* codec : registry()) {
    const int level = codec->info().level_max + 1;
    const Error error = refusal(*codec, {.level = level, .dictionary = plain_dictionary(100)});
    EXPECT_EQ(error.status, Status::invalid_argument);
    EXPECT_EQ(error.message.rfind("level ", 0), 0U) << error.message;
  }
}

TEST(CheckParams, ADamagedTrainedDictionaryIsRefused) {
  const Codec& zstd = *find("zstd");
  const DictionaryBytes trained = trained_dictionary(4096);
  ASSERT_EQ(refusal(zstd, {.dictionary = trained}).status, Status::ok);
  // Cut within its entropy tables; below 8 bytes zstd takes anything for plain content.
  for (std::size_t size = 8; size < 100; ++size) {
    const auto cut = bytes_of({trained->begin(), trained->begin() + static_cast<long>(size)});
    const Error error = refusal(zstd, {.dictionary = cut});
    ASSERT_EQ(error.status, Status::invalid_argument) << size;
    ASSERT_NE(error.message.find("damaged"), std::string::npos) << error.message;
  }
  for (const int fill : {0x00, 0xff}) {
    std::vector<std::byte> bytes(*trained);
    std::fill(bytes.begin() + 8, bytes.end(), static_cast<std::byte>(fill));
    EXPECT_EQ(refusal(zstd, {.dictionary = bytes_of(bytes)}).status, Status::invalid_argument);
  }
}

// Damage that zstd can't tell makes another dictionary, not a broken stream.
TEST(CheckParams, WhatPassesWorks) {
  const Codec& zstd = *find("zstd");
  const DictionaryBytes trained = trained_dictionary(4096);
  Random random(20240611);
  Bench bench;
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(*trained);
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      bytes[4 + random() % 200] ^= static_cast<std::byte>(1U << random() % 8);
    }
    const auto options = check_params(zstd, {.dictionary = bytes_of(std::move(bytes))});
    if (!options) {
      ASSERT_EQ(options.error().status, Status::invalid_argument);
      continue;
    }
    ++taken;
    const auto stream = zstd.make_stream(*options).value();
    const Page page = log_text(random);
    const Packed packed = bench.pack(*stream, page);
    ASSERT_FALSE(packed.empty()) << round;
    ASSERT_TRUE(bench.unpacks_to(*stream, packed, page)) << round;
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 3000);
}

}  // namespace
}  // namespace uzram::codec
