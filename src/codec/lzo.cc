// lzo: LZO1X-1, which has no levels. liblzo2 is GPL-2.0-or-later; builds without UZRAM_LZO leave
// this file out.
#include <lzo/lzo1x.h>

#include <array>

#include "codec/builtin.h"

namespace uzram::codec {
namespace {

class LzoStream final : public Stream {
 public:
  static std::unique_ptr<Stream> make(const StreamOptions& /*options*/) {
    return std::unique_ptr<Stream>(new (std::nothrow) LzoStream);
  }

  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    // lzo1x_1_compress takes no bound: the room is above its worst case.
    static_assert(kPackRoomBytes >= kPageBytes + kPageBytes / 16 + 64 + 3);
    lzo_uint size = room.size();
    const int error =
        lzo1x_1_compress(reinterpret_cast<const unsigned char*>(page.data()), page.size(),
                         reinterpret_cast<unsigned char*>(room.data()), &size, work_.data());
    return error == LZO_E_OK ? size : 0;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    lzo_uint size = out.size();
    // Not LZO_E_OK either when input is left over.
    const int error =
        lzo1x_decompress_safe(reinterpret_cast<const unsigned char*>(packed.data()), packed.size(),
                              reinterpret_cast<unsigned char*>(out.data()), &size, nullptr);
    return error == LZO_E_OK && size == out.size();
  }

 private:
  // Left as it comes: a stream that only unpacks never touches it.
  alignas(std::max_align_t) std::array<unsigned char, LZO1X_1_MEM_COMPRESS> work_;
};

}  // namespace

const Codec* lzo_codec() {
  static const Codec* const codec =
      lzo_init() == LZO_E_OK ? new CodecOf<LzoStream>({.name = "lzo"}) : nullptr;
  return codec;
}

}  // namespace uzram::codec
