#include "tests/unit/codec/codec_support.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace uzram::codec {
namespace {

void fill_random(Random& random, std::span<std::byte> out) {
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
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
  const auto place = all().last(bytes.size());
  std::copy(bytes.begin(), bytes.end(), place.begin());
  return place;
}

std::span<const std::byte> GuardedBytes::at_begin(std::span<const std::byte> bytes) const {
  const auto place = all().first(bytes.size());
  std::copy(bytes.begin(), bytes.end(), place.begin());
  return place;
}

Packed Bench::pack(Stream& stream, const Page& page) {
  const auto plain = plain_.at_begin(page);
  const std::size_t size =
      stream.pack(plain.first<kPageBytes>(), room_.all().first<kPackRoomBytes>());
  if (size > kPackRoomBytes || !std::equal(page.begin(), page.end(), plain.begin())) std::abort();
  const auto packed = room_.all().first(size);
  return {packed.begin(), packed.end()};
}

bool Bench::unpack(Stream& stream, std::span<const std::byte> packed) {
  const auto out = plain_.all().first<kPageBytes>();
  std::fill(out.begin(), out.end(), std::byte{0x5a});
  const bool whole = stream.unpack(packed_.at_end(packed), out);
  std::copy(out.begin(), out.end(), page_.begin());
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  const bool again = stream.unpack(packed_.at_begin(packed), out);
  if (whole != again) return false;
  return whole && std::equal(out.begin(), out.end(), page_.begin());
}

std::unique_ptr<Stream> stream_of(const Codec& codec, int level) {
  auto stream = codec.make_stream(level);
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
