// A dictionary makes pages like it smaller, is shared by all streams, and belongs to its pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "tests/unit/codec/codec_support.h"

namespace uzram::codec {
namespace {

constexpr std::uint64_t kSeed = 20240610;

class WithDictionary : public testing::TestWithParam<const Codec*> {
 protected:
  const Codec& codec_ = *GetParam();
  Random random_{kSeed};
  Bench bench_;

  std::size_t packed_bytes(Stream& stream, int pages) {
    Random random(kSeed);
    std::size_t sum = 0;
    for (int i = 0; i < pages; ++i) sum += bench_.pack(stream, log_text(random)).size();
    return sum;
  }
};

TEST_P(WithDictionary, PacksPagesLikeItDenser) {
  const auto none = stream_of(codec_, {});
  const auto plain = stream_of(codec_, {.dictionary = plain_dictionary(16 << 10)});
  const auto trained = stream_of(codec_, {.dictionary = trained_dictionary(16 << 10)});
  const std::size_t without = packed_bytes(*none, 100);
  EXPECT_LT(packed_bytes(*plain, 100), without * 95 / 100);
  EXPECT_LT(packed_bytes(*trained, 100), without * 95 / 100);
}

// A page that is in the dictionary is little more than a reference to it.
TEST_P(WithDictionary, ReachesItsLast64KiB) {
  const DictionaryBytes dictionary = plain_dictionary(200 << 10);
  const auto stream = stream_of(codec_, {.dictionary = dictionary});
  Page page;
  std::copy_n(dictionary->end() - (60 << 10), kPageBytes, page.begin());
  const Packed packed = bench_.pack(*stream, page);
  EXPECT_LT(packed.size(), 600U);
  EXPECT_TRUE(bench_.unpacks_to(*stream, packed, page));
}

TEST_P(WithDictionary, WorksAtEveryLevelAndSize) {
  std::vector<DictionaryBytes> dictionaries = {trained_dictionary(512),
                                               trained_dictionary(100 << 10)};
  for (const std::size_t bytes : {1UL, 7UL, 8UL, 9UL, 1000UL, 65535UL, 65536UL, 65537UL}) {
    dictionaries.push_back(plain_dictionary(bytes));
  }
  const DictionaryBytes largest = plain_dictionary(kDictionaryBytesMax);
  const CodecInfo& info = codec_.info();
  for (const int level : levels_of(info)) {
    std::vector<DictionaryBytes> tried = dictionaries;
    if (level == info.level_default || level == info.level_max) tried.push_back(largest);
    for (const DictionaryBytes& dictionary : tried) {
      SCOPED_TRACE(std::to_string(level) + " " + std::to_string(dictionary->size()));
      const auto stream = stream_of(codec_, {.level = level, .dictionary = dictionary});
      for (const Page& page : {log_text(random_), mixed(random_), random_then_zeros(random_, 4096),
                               random_then_zeros(random_, 0)}) {
        const Packed packed = bench_.pack(*stream, page);
        ASSERT_FALSE(packed.empty());
        ASSERT_TRUE(bench_.unpacks_to(*stream, packed, page));
      }
    }
  }
}

TEST_P(WithDictionary, AnyLevelUnpacks) {
  const DictionaryBytes dictionary = trained_dictionary(16 << 10);
  const CodecInfo& info = codec_.info();
  const auto one = stream_of(codec_, {.level = info.level_min, .dictionary = dictionary});
  const auto other = stream_of(codec_, {.level = info.level_max, .dictionary = dictionary});
  for (int i = 0; i < 20; ++i) {
    const Page page = log_text(random_);
    ASSERT_TRUE(bench_.unpacks_to(*other, bench_.pack(*one, page), page));
    ASSERT_TRUE(bench_.unpacks_to(*one, bench_.pack(*other, page), page));
  }
}

// With another dictionary, a longer or shorter one, or none, nothing out of bounds is touched, and
// only by chance does the page come out. The stream is none the worse for it.
TEST_P(WithDictionary, AnotherDictionaryIsNoneOfThisPage) {
  const auto own = stream_of(codec_, {.dictionary = plain_dictionary(30'000)});
  const std::unique_ptr<Stream> others[] = {
      stream_of(codec_, {}), stream_of(codec_, {.dictionary = plain_dictionary(10)}),
      stream_of(codec_, {.dictionary = plain_dictionary(30'000, 2)}),
      stream_of(codec_, {.dictionary = plain_dictionary(kDictionaryBytesMax, 3)}),
      stream_of(codec_, {.dictionary = trained_dictionary(16 << 10)})};
  for (int i = 0; i < 50; ++i) {
    const Page page = log_text(random_);
    const Packed packed = bench_.pack(*own, page);
    for (const auto& other : others) {
      ASSERT_FALSE(bench_.unpacks_to(*other, packed, page));
      ASSERT_TRUE(bench_.unpacks_to(*other, bench_.pack(*other, page), page));
    }
    ASSERT_TRUE(bench_.unpacks_to(*own, packed, page));
  }
}

// Nothing but the stream keeps it.
TEST_P(WithDictionary, OutlivesWhoMadeIt) {
  std::unique_ptr<Stream> stream;
  {
    const auto options = check_params(codec_, {.dictionary = trained_dictionary(16 << 10)}).value();
    stream = codec_.make_stream(options).value();
  }
  const Page page = log_text(random_);
  EXPECT_TRUE(bench_.unpacks_to(*stream, bench_.pack(*stream, page), page));
}

TEST_P(WithDictionary, IsSharedByStreamsOfManyThreads) {
  const auto options = check_params(codec_, {.dictionary = trained_dictionary(16 << 10)}).value();
  const auto work = [this, &options](std::uint64_t seed, std::atomic<int>& wrong) {
    Random random(seed);
    Bench bench;
    const auto stream = codec_.make_stream(options).value();
    for (int i = 0; i < 200; ++i) {
      const Page page = log_text(random);
      if (!bench.unpacks_to(*stream, bench.pack(*stream, page), page)) ++wrong;
    }
  };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(work, i, std::ref(wrong));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

std::vector<const Codec*> takers() {
  std::vector<const Codec*> codecs;
  for (const Codec* codec : registry()) {
    if (codec->info().dictionary) codecs.push_back(codec);
  }
  return codecs;
}

INSTANTIATE_TEST_SUITE_P(Codec, WithDictionary, testing::ValuesIn(takers()),
                         [](const auto& param) { return param.param->info().name; });

// What lies farther back than 64 KiB changes nothing.
TEST(Lz4Dictionary, OnlyItsLast64KiBCount) {
  Random random(kSeed);
  Bench bench;
  const DictionaryBytes tail = plain_dictionary(64 << 10);
  std::vector<std::byte> longer(tail->size() + 100);
  std::copy(tail->begin(), tail->end(), longer.begin() + 100);
  const auto whole = std::make_shared<const std::vector<std::byte>>(std::move(longer));
  for (const char* name : {"lz4", "lz4hc"}) {
    const auto one = stream_of(*find(name), {.dictionary = tail});
    const auto other = stream_of(*find(name), {.dictionary = whole});
    for (int i = 0; i < 20; ++i) {
      const Page page = log_text(random);
      const Packed packed = bench.pack(*one, page);
      ASSERT_EQ(packed, bench.pack(*other, page)) << name;
      ASSERT_TRUE(bench.unpacks_to(*other, packed, page)) << name;
    }
  }
}

// By hand: one match of 4081 bytes at the distance `back` from the page's beginning, then the 15
// literals that end it. From a dictionary's last 4081 bytes and no farther.
TEST(Lz4Dictionary, NoMatchBeginsBeforeIt) {
  constexpr std::size_t kLiterals = 15;
  constexpr std::size_t kMatch = kPageBytes - kLiterals;
  const auto packed_at = [](std::size_t back) {
    Packed packed = {std::byte{0x0f}, static_cast<std::byte>(back & 0xff),
                     static_cast<std::byte>(back >> 8)};
    std::size_t left = kMatch - 4 - 15;
    for (; left >= 255; left -= 255) packed.push_back(std::byte{255});
    packed.push_back(static_cast<std::byte>(left));
    packed.push_back(std::byte{0xf0});
    packed.push_back(std::byte{0});
    packed.insert(packed.end(), kLiterals, std::byte{'.'});
    return packed;
  };
  Bench bench;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{4081},
                                  std::size_t{4096}, std::size_t{65534}}) {
    const DictionaryBytes dictionary = plain_dictionary(bytes);
    Page page;
    page.fill(std::byte{'.'});
    for (std::size_t i = 0; i < kMatch; ++i) page[i] = (*dictionary)[i % bytes];
    for (const char* name : {"lz4", "lz4hc"}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(bytes));
      const auto stream = stream_of(*find(name), {.dictionary = dictionary});
      EXPECT_TRUE(bench.unpacks_to(*stream, packed_at(bytes), page));
      EXPECT_FALSE(bench.unpack(*stream, packed_at(bytes + 1)));
      EXPECT_FALSE(bench.unpack(*stream_of(*find(name), {}), packed_at(bytes)));
    }
  }
}

}  // namespace
}  // namespace uzram::codec
