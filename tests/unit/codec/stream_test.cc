// Streams keep nothing of one page for the next, nor share anything with each other.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/unit/codec/codec_support.h"

namespace uzram::codec {
namespace {

constexpr std::uint64_t kSeed = 20240608;

// Pages that share most of their bytes: a codec that looked back into the page before would use it.
std::vector<Page> alike_pages(std::size_t count) {
  Random random(kSeed);
  std::vector<Page> pages(count, mixed(random));
  for (Page& page : pages) page[random() % kPageBytes] = static_cast<std::byte>(random());
  return pages;
}

TEST(Stream, PagesUnpackInAnyOrderAndByAnyStream) {
  const std::vector<Page> pages = alike_pages(8);
  Bench bench;
  for (const Codec* codec : registry()) {
    const CodecInfo& info = codec->info();
    for (const int level : levels_of(info)) {
      SCOPED_TRACE(info.name + " " + std::to_string(level));
      const auto stream = stream_of(*codec, {.level = level});
      const auto other = stream_of(*codec, {.level = info.level_min});
      std::vector<Packed> packed;
      for (const Page& page : pages) packed.push_back(bench.pack(*stream, page));
      for (std::size_t i = pages.size(); i-- > 0;) {
        ASSERT_TRUE(bench.unpacks_to(*stream, packed[i], pages[i])) << i;
        ASSERT_TRUE(bench.unpacks_to(*other, packed[i], pages[i])) << i;
      }
    }
  }
}

TEST(Stream, UnpacksBetweenPacks) {
  const std::vector<Page> pages = alike_pages(50);
  Bench bench;
  for (const Codec* codec : registry()) {
    SCOPED_TRACE(codec->info().name);
    const auto stream = stream_of(*codec, {});
    const Packed first = bench.pack(*stream, pages[0]);
    for (const Page& page : pages) {
      const Packed packed = bench.pack(*stream, page);
      ASSERT_TRUE(bench.unpacks_to(*stream, first, pages[0]));
      ASSERT_TRUE(bench.unpacks_to(*stream, packed, page));
    }
  }
}

// Codecs that continue one index over all pages must start it anew before it overflows: lz4hc
// moves on by 68 KiB a page and clears its tables at 1 GiB, zstd moves on by a page up to 3.5 GiB.
TEST(Stream, OutlivesTheIndexOfItsTables) {
  constexpr struct {
    const char* codec;
    int level;
    int pages;
    bool dictionary;
  } kRuns[] = {{"lz4", 1, 1 << 16, false},
               {"lz4hc", 3, 70'000, false},
               {"zstd", -7, (1 << 20) + 1000, false},
               {"zstd", -7, (1 << 20) + 1000, true}};
  const DictionaryBytes dictionary = plain_dictionary(16 << 10);
  Random random(kSeed);
  std::vector<Page> pages;
  for (int i = 0; i < 16; ++i) pages.push_back(random_then_zeros(random, 64));
  std::array<std::byte, kPackRoomBytes> room;
  Page out;
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.codec);
    const Codec* codec = find(run.codec);
    ASSERT_NE(codec, nullptr);
    const auto stream = stream_of(
        *codec, {.level = run.level, .dictionary = run.dictionary ? dictionary : nullptr});
    for (int i = 0; i < run.pages; ++i) {
      const Page& page = pages[static_cast<std::size_t>(i) % pages.size()];
      const std::size_t size = stream->pack(page, room);
      ASSERT_GT(size, 0U) << i;
      ASSERT_LT(size, 128U) << i;
      ASSERT_TRUE(stream->unpack(std::span(room).first(size), out)) << i;
      ASSERT_EQ(std::memcmp(out.data(), page.data(), kPageBytes), 0) << i;
    }
  }
}

TEST(Stream, EachThreadHasItsOwn) {
  const std::vector<Page> pages = alike_pages(20);
  const auto work = [&pages](std::atomic<int>& wrong) {
    Bench bench;
    for (const Codec* codec : registry()) {
      const auto stream = stream_of(*codec, {});
      for (const Page& page : pages) {
        const Packed packed = bench.pack(*stream, page);
        if (!bench.unpacks_to(*stream, packed, page)) ++wrong;
      }
    }
  };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, std::ref(wrong));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace uzram::codec
