// deflate: raw DEFLATE by libdeflate, levels 1..12, default 6. Address space for each stream: 0.2
// MiB at level 1, 0.65 MiB at 2..9, 9 MiB at 10..12; a stream that only unpacks touches next to
// nothing of it. libdeflate knows no preset dictionary and no window but the full one.
#include <libdeflate.h>

#include "codec/builtin.h"

namespace uzram::codec {
namespace {

struct FreeCompressor {
  void operator()(libdeflate_compressor* it) const noexcept { libdeflate_free_compressor(it); }
};
struct FreeDecompressor {
  void operator()(libdeflate_decompressor* it) const noexcept { libdeflate_free_decompressor(it); }
};
using Packer = std::unique_ptr<libdeflate_compressor, FreeCompressor>;
using Unpacker = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

class DeflateStream final : public Stream {
 public:
  DeflateStream(Packer packer, Unpacker unpacker) noexcept
      : packer_(std::move(packer)), unpacker_(std::move(unpacker)) {}

  static std::unique_ptr<Stream> make(const StreamOptions& options) {
    Packer packer(libdeflate_alloc_compressor(options.level));
    Unpacker unpacker(libdeflate_alloc_decompressor());
    if (!packer || !unpacker) return nullptr;
    return std::unique_ptr<Stream>(new (std::nothrow)
                                       DeflateStream(std::move(packer), std::move(unpacker)));
  }

  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    return libdeflate_deflate_compress(packer_.get(), page.data(), page.size(), room.data(),
                                       room.size());
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    std::size_t used = 0;
    // Without a place for the size of the output, the library insists on a full page.
    const libdeflate_result result = libdeflate_deflate_decompress_ex(
        unpacker_.get(), packed.data(), packed.size(), out.data(), out.size(), &used, nullptr);
    return result == LIBDEFLATE_SUCCESS && used == packed.size();
  }

 private:
  const Packer packer_;
  const Unpacker unpacker_;
};

}  // namespace

const Codec& deflate_codec() {
  static const Codec& codec = *new CodecOf<DeflateStream>({.name = "deflate",
                                                           .level_min = 1,
                                                           .level_max = 12,
                                                           .level_default = 6,
                                                           .window_bits = true});
  return codec;
}

}  // namespace uzram::codec
