// The contract of a compression codec.
//
// What: a `Codec` describes an algorithm and makes streams; a `Stream` packs and unpacks pages;
//   `StreamOptions` are parameters that were checked and prepared, once for all streams of a kind.
// Units: bytes; a page is kPageBytes.
// Ownership: codecs are immortal and owned by the registry; a stream belongs to who made it, owns
//   its scratch memory and keeps its dictionary alive, which all streams of the options share.
// Threading: codecs and prepared dictionaries may be used from any thread, a stream by one thread
//   at a time; no locks.
// Errors: what is wrong with parameters is told by check_params and never later; making a stream
//   can fail for lack of memory alone; pack and unpack are noexcept and answer by value.
#ifndef UZRAM_CODEC_CODEC_H_
#define UZRAM_CODEC_CODEC_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "uzram/codec.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::codec {

// Room that `pack` is always given: above every codec's worst case for one page, so that no codec
// ever meets the end of its output and the caller alone decides what is too large.
inline constexpr std::size_t kPackRoomBytes = 2 * kPageBytes;

using PlainPage = std::span<const std::byte, kPageBytes>;
using PlainPageOut = std::span<std::byte, kPageBytes>;
using PackRoom = std::span<std::byte, kPackRoomBytes>;
using DictionaryBytes = std::shared_ptr<const std::vector<std::byte>>;

class Stream {
 public:
  virtual ~Stream() = default;
  // Packs `page` into `room`; the packed size, 1..kPackRoomBytes, or 0 when the codec failed.
  [[nodiscard]] virtual std::size_t pack(PlainPage page, PackRoom room) noexcept = 0;
  // Unpacks exactly one page. False when `packed` isn't one: `out` then holds anything, and nothing
  // outside of `packed` and the dictionary was read or of `out` written, whatever the bytes were.
  // Any stream of the codec with the dictionary of who packed, whatever its level, gives the page
  // back. With another dictionary, or none, the answer may be false or a wrong page: nothing stored
  // tells which dictionary it was, so it is for who keeps the packed bytes to keep it with them.
  [[nodiscard]] virtual bool unpack(std::span<const std::byte> packed,
                                    PlainPageOut out) noexcept = 0;
};

// A dictionary made ready for one codec at one level. What that takes beside the dictionary itself,
// once for all streams: lz4 16 KiB, lz4hc 256 KiB, zstd 27 KiB and its match tables (from 50 KiB at
// level 1 to 1.5 MiB at level 22 with 64 KiB of dictionary). A stream takes no more than without.
class Dictionary {
 public:
  virtual ~Dictionary() = default;
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

 protected:
  Dictionary() = default;
};

// Made by check_params, for the streams of the codec that it was asked about.
struct StreamOptions {
  int level = 0;
  std::shared_ptr<const Dictionary> dictionary = {};  // nullptr: none
};

class Codec {
 public:
  virtual ~Codec() = default;
  // Name and range of levels as shown to people.
  virtual const CodecInfo& info() const noexcept = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) const = 0;
  // For check_params, which has judged the size and the level. What it makes keeps `bytes`.
  virtual Result<std::shared_ptr<const Dictionary>> prepare(DictionaryBytes bytes,
                                                            int level) const = 0;
};

// The codecs of this build, in listing order.
const std::vector<const Codec*>& registry();
// nullptr when there is none of that name. "lzo-rle" finds lzo.
const Codec* find(std::string_view name);
// What `params` come to. Fails with invalid_argument (out of range, naming the range; a dictionary
// that begins as zstd's trained ones do and is none), not_supported (a dictionary where the codec
// takes none) or no_memory.
Result<StreamOptions> check_params(const Codec& codec, const CodecParams& params);

}  // namespace uzram::codec

#endif  // UZRAM_CODEC_CODEC_H_
