#include "tests/unit/codec/codec_support.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <zdict.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace uzram::codec {
namespace {

void fill_random(Random& random, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t word = random();
    const std::size_t length = std::min(out.size(), sizeof(word));
    std::memcpy(out.data(), &word, length);
    out = out.subspan(length);
  }
}

// std::equal and std::copy go byte by byte, which the thread sanitizer makes very slow.
bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::span<const std::byte> copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  return to;
}

void fill_text(std::span<std::byte> out, std::string_view text) {
  std::memcpy(out.data(), text.data(), std::min(out.size(), text.size()));
}

}  // namespace

Page random_then_zeros(Random& random, std::size_t entropy_bytes) {
  Page page{};
  fill_random(random, std::span(page).first(entropy_bytes));
  return page;
}

Page zeros_then_random(Random& random, std::size_t entropy_bytes) {
  Page page{};
  fill_random(random, std::span(page).last(entropy_bytes));
  return page;
}

Page decimal_text(Random& random, std::size_t entropy_bytes) {
  std::string text;
  while (text.size() < kPageBytes) {
    if (random() % kPageBytes < entropy_bytes) {
      text.append(random() % 300, '0');
    } else {
      text += std::to_string(random() % 1'000'000) + ' ';
    }
  }
  Page page{};
  fill_text(page, text);
  return page;
}

Page yes_text(Random& random, std::size_t entropy_bytes) {
  Page page{};
  for (std::size_t i = 0; i < page.size(); i += 2) fill_text(std::span(page).subspan(i), "y\n");
  fill_random(random, std::span(page).last(entropy_bytes % 7 + 1));
  return page;
}

Page mixed(Random& random) {
  Page page{};
  std::size_t at = 0;
  while (at < page.size()) {
    const std::size_t length = std::min(8 + random() % 56, page.size() - at);
    const auto piece = std::span(page).subspan(at, length);
    if (at >= length && random() % 2 == 0) {
      std::memcpy(piece.data(), page.data() + random() % (at - length + 1), length);
    } else {
      fill_random(random, piece);
    }
    at += length;
  }
  return page;
}

Page log_text(Random& random) {
  static constexpr std::array<const char*, 8> kActions = {
      "accepted connection from client", "closed idle session of tenant",
      "flushed journal segment",         "refused request over its quota",
      "rotated certificate of peer",     "mounted snapshot volume",
      "rescheduled background scrub of", "evicted cached object under pressure"};
  std::string text;
  while (text.size() < kPageBytes) {
    text += "{\"time\":" + std::to_string(random() % 100'000'000) + ",\"action\":\"" +
            kActions[random() % kActions.size()] + "\",\"id\":\"" + std::to_string(random()) +
            "\"}\n";
  }
  Page page{};
  fill_text(page, text);
  return page;
}

DictionaryBytes plain_dictionary(std::size_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> all;
  while (all.size() < bytes) {
    const Page page = log_text(random);
    all.insert(all.end(), page.begin(), page.end());
  }
  all.resize(bytes);
  return std::make_shared<const std::vector<std::byte>>(std::move(all));
}

DictionaryBytes trained_dictionary(std::size_t bytes) {
  const DictionaryBytes samples = plain_dictionary(200 * kPageBytes);
  const std::vector<std::size_t> sizes(800, kPageBytes / 4);
  std::vector<std::byte> trained(bytes);
  const std::size_t size =
      ZDICT_trainFromBuffer(trained.data(), trained.size(), samples->data(), sizes.data(), 800);
  if (ZDICT_isError(size) != 0) std::abort();
  trained.resize(size);
  return std::make_shared<const std::vector<std::byte>>(std::move(trained));
}

GuardedBytes::GuardedBytes(std::size_t capacity) : capacity_(capacity) {
  void* const map =
      mmap(nullptr, capacity + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) std::abort();
  begin_ = static_cast<std::byte*>(map) + kPageBytes;
  if (mprotect(begin_, capacity, PROT_READ | PROT_WRITE) != 0) std::abort();
}

GuardedBytes::~GuardedBytes() {
  munmap(begin_ - kPageBytes, capacity_ + 2 * kPageBytes);
}

std::span<const std::byte> GuardedBytes::at_end(std::span<const std::byte> bytes) const {
  return copy(bytes, all().last(bytes.size()));
}

std::span<const std::byte> GuardedBytes::at_begin(std::span<const std::byte> bytes) const {
  return copy(bytes, all().first(bytes.size()));
}

Packed Bench::pack(Stream& stream, const Page& page) {
  const auto plain = plain_.at_begin(page);
  const std::size_t size =
      stream.pack(plain.first<kPageBytes>(), room_.all().first<kPackRoomBytes>());
  if (size > kPackRoomBytes || !same(page, plain)) std::abort();
  const auto packed = room_.all().first(size);
  return {packed.begin(), packed.end()};
}

bool Bench::unpack(Stream& stream, std::span<const std::byte> packed) {
  const auto out = plain_.all().first<kPageBytes>();
  std::memset(out.data(), 0x5a, out.size());
  const bool whole = stream.unpack(packed_.at_end(packed), out);
  copy(out, page_);
  std::memset(out.data(), 0xa5, out.size());
  const bool again = stream.unpack(packed_.at_begin(packed), out);
  EXPECT_EQ(whole, again);
  if (whole) {
    EXPECT_TRUE(same(out, page_)) << "said yes without writing all of the page";
  }
  return whole;
}

bool Bench::unpacks_to(Stream& stream, std::span<const std::byte> packed, const Page& page) {
  return unpack(stream, packed) && same(page_, page);
}

std::unique_ptr<Stream> stream_of(const Codec& codec, const CodecParams& params) {
  const auto options = check_params(codec, params);
  if (!options) std::abort();
  auto stream = codec.make_stream(*options);
  if (!stream) std::abort();
  return std::move(*stream);
}

std::vector<int> levels_of(const CodecInfo& info) {
  std::vector<int> levels;
  if (info.level_max - info.level_min < 100) {
    for (int level = info.level_min; level <= info.level_max; ++level) levels.push_back(level);
  } else {
    for (const int level : {info.level_min, 2, 3, 8, 64, 4096, info.level_max - 1, info.level_max})
      levels.push_back(level);
  }
  return levels;
}

}  // namespace uzram::codec
