// unpack takes any bytes: it never leaves its buffers, and says yes to exactly one whole page only.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/codec/codec_support.h"

namespace uzram::codec {
namespace {

constexpr std::uint64_t kSeed = 20240609;

void append(Packed& packed, std::initializer_list<std::size_t> bytes) {
  for (const std::size_t byte : bytes) packed.push_back(static_cast<std::byte>(byte));
}

// `count` bytes stored without compression, by hand, in the format of each codec.
Packed stored(const std::string& codec, std::size_t count) {
  const std::size_t low = count & 0xff, high = count >> 8;
  Packed packed;
  if (codec == "lz4" || codec == "lz4hc") {
    append(packed, {0xf0});
    for (std::size_t left = count - 15;; left -= 255) {
      append(packed, {std::min<std::size_t>(left, 255)});
      if (left < 255) break;
    }
  } else if (codec == "lzo") {
    append(packed, {0});
    std::size_t left = count - 18;
    for (; left > 255; left -= 255) append(packed, {0});
    append(packed, {left});
  } else if (codec == "zstd") {
    const std::size_t header = count << 3 | 1;
    append(packed, {0, 0x10, header & 0xff, header >> 8 & 0xff, header >> 16});
  } else {
    append(packed, {1, low, high, low ^ 0xff, high ^ 0xff});
  }
  for (std::size_t i = 0; i < count; ++i) append(packed, {i});
  if (codec == "lzo") append(packed, {0x11, 0, 0});
  return packed;
}

struct Case {
  const Codec* codec;
  enum { none, plain, trained } dictionary;

  friend void PrintTo(const Case& the_case, std::ostream* out) { *out << name_of(the_case); }
  friend std::string name_of(const Case& the_case) {
    static constexpr const char* kKinds[] = {"", "_plain_dictionary", "_trained_dictionary"};
    return the_case.codec->info().name + kKinds[the_case.dictionary];
  }
};

DictionaryBytes dictionary_of(const Case& the_case) {
  // Shorter than what an lz4 match can reach, so that there is something before it.
  if (the_case.dictionary == Case::plain) return plain_dictionary(5000);
  if (the_case.dictionary == Case::trained) return trained_dictionary(5000);
  return nullptr;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Codec* codec : registry()) {
    cases.push_back({codec, Case::none});
    if (!codec->info().dictionary) continue;
    cases.push_back({codec, Case::plain});
    cases.push_back({codec, Case::trained});
  }
  return cases;
}

class Hostile : public testing::TestWithParam<Case> {
 protected:
  const std::string name_ = GetParam().codec->info().name;
  const std::unique_ptr<Stream> stream_ =
      stream_of(*GetParam().codec, {.dictionary = dictionary_of(GetParam())});
  Random random_{kSeed};
  Bench bench_;

  std::vector<Page> samples() {
    std::vector<Page> pages;
    for (const std::size_t bytes : {0UL, 1UL, 100UL, 2048UL, 4000UL, kPageBytes}) {
      pages.push_back(random_then_zeros(random_, bytes));
      pages.push_back(decimal_text(random_, bytes));
    }
    pages.push_back(mixed(random_));
    pages.push_back(log_text(random_));
    return pages;
  }
};

TEST_P(Hostile, OnlyAWholePageIsOne) {
  EXPECT_TRUE(bench_.unpack(*stream_, stored(name_, kPageBytes)));
  for (const std::size_t count : {30UL, 2048UL, kPageBytes - 1, kPageBytes + 1}) {
    EXPECT_FALSE(bench_.unpack(*stream_, stored(name_, count))) << count;
  }
}

TEST_P(Hostile, NothingIsNoPage) {
  EXPECT_FALSE(bench_.unpack(*stream_, {}));
  Page out;
  EXPECT_FALSE(stream_->unpack(std::span<const std::byte>(), out));
}

TEST_P(Hostile, InputMustBeUsedUpAndBeEnough) {
  for (const Page& page : samples()) {
    const Packed packed = bench_.pack(*stream_, page);
    for (std::size_t size = 0; size < packed.size(); size += size + 20 < packed.size() ? 13 : 1) {
      ASSERT_FALSE(bench_.unpack(*stream_, std::span(packed).first(size))) << size;
    }
    for (const int extra : {0, 1, 0x11, 0xff}) {
      Packed longer = packed;
      append(longer, {static_cast<std::size_t>(extra)});
      ASSERT_FALSE(bench_.unpack(*stream_, longer)) << extra;
    }
    Packed twice = packed;
    twice.insert(twice.end(), packed.begin(), packed.end());
    ASSERT_FALSE(bench_.unpack(*stream_, twice));
  }
}

TEST_P(Hostile, TwoHalvesAreNoPage) {
  Packed halves = stored(name_, kPageBytes / 2);
  const Packed half = halves;
  halves.insert(halves.end(), half.begin(), half.end());
  EXPECT_FALSE(bench_.unpack(*stream_, halves));
}

// Guard pages around the buffers end the program if a byte outside of them is touched.
TEST_P(Hostile, DamagedPagesStayInBounds) {
  const std::vector<Page> pages = samples();
  std::vector<Packed> packed;
  for (const Page& page : pages) packed.push_back(bench_.pack(*stream_, page));
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t which = random_() % packed.size();
    Packed bytes = packed[which];
    const auto flips = 1 + random_() % 8;
    switch (random_() % 3) {
      case 0:  // flipped bits
        for (std::uint64_t i = 0; i < flips; ++i) {
          bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1U << random_() % 8);
        }
        break;
      case 1:  // truncated, with one byte changed
        bytes.resize(1 + random_() % bytes.size());
        bytes[random_() % bytes.size()] = static_cast<std::byte>(random_());
        break;
      default: {  // goes on as another page
        const Packed& other = packed[random_() % packed.size()];
        bytes.resize(random_() % bytes.size());
        const auto from = static_cast<std::ptrdiff_t>(random_() % other.size());
        bytes.insert(bytes.end(), other.begin() + from, other.end());
      }
    }
    static_cast<void>(bench_.unpack(*stream_, bytes));
    // And damage leaves nothing behind in the stream.
    if (round % 16 != 0) continue;
    ASSERT_TRUE(bench_.unpacks_to(*stream_, packed[which], pages[which])) << round;
  }
}

TEST_P(Hostile, RandomBytesStayInBounds) {
  for (int round = 0; round < 20'000; ++round) {
    Packed bytes(random_() % (round % 2 == 0 ? 64 : 2 * kPageBytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    // Half of them with the first bytes of a stored page, to get past the headers.
    if (random_() % 2 == 0) {
      const Packed head = stored(name_, 18 + random_() % kPageBytes);
      std::copy_n(head.begin(), std::min<std::size_t>({bytes.size(), 2, head.size()}),
                  bytes.begin());
    }
    static_cast<void>(bench_.unpack(*stream_, bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Codec, Hostile, testing::ValuesIn(all_cases()),
                         [](const auto& param) { return name_of(param.param); });

}  // namespace
}  // namespace uzram::codec
