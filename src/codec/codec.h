// The contract of a compression codec.
//
// What: a `Codec` describes an algorithm and makes streams; a `Stream` packs and unpacks pages.
// Units: bytes; a page is kPageBytes.
// Ownership: codecs are immortal and owned by the registry; a stream belongs to who made it and
// owns
//   its scratch memory.
// Threading: a codec may be used from any thread; a stream by one thread at a time, without locks.
// Errors: making a stream can fail (no_memory); pack and unpack are noexcept and answer by value.
#ifndef UZRAM_CODEC_CODEC_H_
#define UZRAM_CODEC_CODEC_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::codec {

// Room that `pack` is always given: above every codec's worst case for one page, so that no codec
// ever meets the end of its output and the caller alone decides what is too large.
inline constexpr std::size_t kPackRoomBytes = 2 * kPageBytes;

using PlainPage = std::span<const std::byte, kPageBytes>;
using PlainPageOut = std::span<std::byte, kPageBytes>;
using PackRoom = std::span<std::byte, kPackRoomBytes>;

class Stream {
 public:
  virtual ~Stream() = default;
  // Packs `page` into `room`; the packed size, 1..kPackRoomBytes, or 0 when the codec failed.
  [[nodiscard]] virtual std::size_t pack(PlainPage page, PackRoom room) noexcept = 0;
  // Unpacks exactly one page. False when `packed` isn't one: `out` then holds anything, and nothing
  // outside of `packed` was read or of `out` written, whatever the bytes were.
  [[nodiscard]] virtual bool unpack(std::span<const std::byte> packed,
                                    PlainPageOut out) noexcept = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;
  // Name and range of levels as shown to people.
  virtual const CodecInfo& info() const noexcept = 0;
  // `level` is within the range of info().
  virtual Result<std::unique_ptr<Stream>> make_stream(int level) const = 0;
};

// The codecs of this build, in listing order.
const std::vector<const Codec*>& registry();
// nullptr when there is none of that name.
const Codec* find(std::string_view name);
// The level to use: `level` checked against the codec's range (invalid_argument, naming the range),
// or its default.
Result<int> check_level(const Codec& codec, std::optional<int> level);

}  // namespace uzram::codec

#endif  // UZRAM_CODEC_CODEC_H_
