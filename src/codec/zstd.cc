// zstd: levels -7..22, default 3. zstd's own range goes down to -131072, where it packs hardly
// anything; below -7 ("--fast=7" of its tool) lz4 is both faster and denser. 0 is zstd's name for
// its default.
//
// A packed page is one magicless frame without content size, checksum or dictionary id: 5 bytes
// less than zstd's standard frame. It takes zstd's static API; the symbols are exported by its
// shared library, and they and the values of their enums have been the same since 1.4.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "codec/builtin.h"

namespace uzram::codec {
namespace {

constexpr int kLevelMin = -7;
constexpr int kLevelMax = 22;
constexpr int kLevelDefault = 3;

struct FreeDCtx {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

// Whether `packed` is exactly one frame of ours, so that every byte of it belongs to the page.
// ZSTD_decompressDCtx would take a row of frames: where a magicless one is followed by less than 4
// bytes it reads past their end (zstd 1.5.4; a guard page in the tests shows it), and bytes that
// look like a frame of an old version go to the old decoders that most builds of it contain.
bool is_one_frame(std::span<const std::byte> packed) noexcept {
  constexpr std::size_t kFrameHeaderBytes = 2;  // descriptor, window
  constexpr std::size_t kBlockHeaderBytes = 3;
  enum : unsigned { kRaw = 0, kRle = 1 };
  if (packed.size() < kFrameHeaderBytes || packed[0] != std::byte{0}) return false;
  std::size_t at = kFrameHeaderBytes;
  for (bool last = false; !last;) {
    if (packed.size() - at < kBlockHeaderBytes) return false;
    const unsigned header = std::to_integer<unsigned>(packed[at]) |
                            std::to_integer<unsigned>(packed[at + 1]) << 8 |
                            std::to_integer<unsigned>(packed[at + 2]) << 16;
    last = (header & 1) != 0;
    const unsigned type = header >> 1 & 3;
    const std::size_t length = type == kRle ? 1 : header >> 3;
    at += kBlockHeaderBytes;
    if (packed.size() - at < length) return false;
    at += length;
  }
  return at == packed.size();
}

class ZstdStream final : public Stream {
 public:
  // Both contexts take their memory here and never again: packing can't fail for lack of it. The
  // workspace is of the size that a 4 KiB source needs (72-270 KiB by level), and what it holds is
  // touched by the first pack.
  static std::unique_ptr<Stream> make(int level) {
    std::unique_ptr<ZstdStream> stream(new (std::nothrow) ZstdStream);
    if (!stream || !stream->prepare(level)) return nullptr;
    return stream;
  }

  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    const std::size_t size =
        ZSTD_compress2(packer_, room.data(), room.size(), page.data(), page.size());
    return ZSTD_isError(size) ? 0 : size;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    if (!is_one_frame(packed)) return false;
    // Errors are values far above the size of a page.
    return ZSTD_decompressDCtx(unpacker_.get(), out.data(), out.size(), packed.data(),
                               packed.size()) == out.size();
  }

 private:
  bool prepare(int level) {
    const std::size_t bytes =
        ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level, kPageBytes, 0));
    workspace_.reset(new (std::nothrow) std::byte[bytes]);
    unpacker_.reset(ZSTD_createDCtx());
    if (!workspace_ || !unpacker_) return false;
    packer_ = ZSTD_initStaticCCtx(workspace_.get(), bytes);
    if (packer_ == nullptr) return false;
    const std::size_t answers[] = {
        ZSTD_CCtx_setParameter(packer_, ZSTD_c_compressionLevel, level),
        ZSTD_CCtx_setParameter(packer_, ZSTD_c_contentSizeFlag, 0),
        ZSTD_CCtx_setParameter(packer_, ZSTD_c_format, ZSTD_f_zstd1_magicless),
        ZSTD_DCtx_setParameter(unpacker_.get(), ZSTD_d_format, ZSTD_f_zstd1_magicless),
    };
    for (const std::size_t answer : answers) {
      if (ZSTD_isError(answer)) return false;
    }
    return true;
  }

  std::unique_ptr<std::byte[]> workspace_;  // packer_ lives in it
  ZSTD_CCtx* packer_ = nullptr;
  std::unique_ptr<ZSTD_DCtx, FreeDCtx> unpacker_;
};

}  // namespace

const Codec& zstd_codec() {
  static const Codec& codec = *new CodecOf<ZstdStream>({.name = "zstd",
                                                        .level_min = kLevelMin,
                                                        .level_max = kLevelMax,
                                                        .level_default = kLevelDefault});
  return codec;
}

}  // namespace uzram::codec
