// What the tests of the codecs share.
//
// What: pages of chosen kinds, and memory that ends where it should. Units: bytes.
// Ownership: GuardedBytes owns its mapping. Threading: one thread for each object.
// Errors: a mapping that fails ends the test program.
#ifndef UZRAM_TESTS_UNIT_CODEC_CODEC_SUPPORT_H_
#define UZRAM_TESTS_UNIT_CODEC_CODEC_SUPPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace uzram::codec {

using Page = std::array<std::byte, kPageBytes>;
using Packed = std::vector<std::byte>;
using Random = std::mt19937_64;

// The kinds of page on which codecs were seen to fail, each with `entropy_bytes` 0..kPageBytes.
Page random_then_zeros(Random& random, std::size_t entropy_bytes);
Page zeros_then_random(Random& random, std::size_t entropy_bytes);
// Decimal numbers, of which the `entropy_bytes`-th part of a page is long runs of "0".
Page decimal_text(Random& random, std::size_t entropy_bytes);
// "y\n" over and over; the last 1..7 bytes are random.
Page yes_text(Random& random, std::size_t entropy_bytes);
// Short pieces, half of them seen before: what programs' data looks like to a codec.
Page mixed(Random& random);

// A page of records as a service logs them: alike, and little in one page repeats.
Page log_text(Random& random);
// `bytes` of such records, as plain content, the same for the same seed.
DictionaryBytes plain_dictionary(std::size_t bytes, std::uint64_t seed = 1);
// Made of such records by zstd's trainer, of about `bytes`: entropy tables, then content.
DictionaryBytes trained_dictionary(std::size_t bytes);

// Memory between two pages that fault when touched. Unlike a sanitizer's heap it also catches what
// code does that was not built with one: the compression libraries.
class GuardedBytes {
 public:
  // `capacity` is a multiple of kPageBytes.
  explicit GuardedBytes(std::size_t capacity);
  ~GuardedBytes();
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::span<std::byte> all() const { return {begin_, capacity_}; }
  // A copy of `bytes` that ends at the upper guard, or begins at the lower one.
  std::span<const std::byte> at_end(std::span<const std::byte> bytes) const;
  std::span<const std::byte> at_begin(std::span<const std::byte> bytes) const;

 private:
  std::byte* begin_;
  std::size_t capacity_;
};

// Packs from and into guarded memory, and unpacks so.
class Bench {
 public:
  // Empty when the codec failed.
  Packed pack(Stream& stream, const Page& page);
  // What the stream answers. The test fails when the outcome depends on what was in the output
  // before, that is when not all of the page was written.
  bool unpack(Stream& stream, std::span<const std::byte> packed);
  bool unpacks_to(Stream& stream, std::span<const std::byte> packed, const Page& page);

 private:
  GuardedBytes plain_{kPageBytes};
  GuardedBytes room_{kPackRoomBytes};
  GuardedBytes packed_{4 * kPageBytes};
  Page page_{};
};

std::unique_ptr<Stream> stream_of(const Codec& codec, const CodecParams& params);
// All levels, or for a long range its ends and some between.
std::vector<int> levels_of(const CodecInfo& info);

}  // namespace uzram::codec

#endif  // UZRAM_TESTS_UNIT_CODEC_CODEC_SUPPORT_H_
