// zstd: levels -7..22, default 3. zstd's own range goes down to -131072, where it packs hardly
// anything; below -7 ("--fast=7" of its tool) lz4 is both faster and denser. 0 is zstd's name for
// its default.
//
// A packed page is one magicless frame without content size, checksum or dictionary id: 5 bytes
// less than zstd's standard frame. It takes zstd's static API; the symbols are exported by its
// shared library, and they and the values of their enums have been the same since 1.4.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <array>
#include <initializer_list>

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

struct FreeCCtx {
  void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
};
struct FreeCDict {
  void operator()(ZSTD_CDict* dictionary) const noexcept { ZSTD_freeCDict(dictionary); }
};
struct FreeDDict {
  void operator()(ZSTD_DDict* dictionary) const noexcept { ZSTD_freeDDict(dictionary); }
};

// Whether zstd takes the bytes for a trained dictionary, not for plain content.
bool is_trained(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kHeaderBytes = 8;
  constexpr std::array kMagic = {std::byte{0x37}, std::byte{0xa4}, std::byte{0x30},
                                 std::byte{0xec}};
  return bytes.size() >= kHeaderBytes && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

bool good(std::initializer_list<std::size_t> answers) noexcept {
  return std::none_of(answers.begin(), answers.end(),
                      [](std::size_t answer) { return ZSTD_isError(answer) != 0; });
}

// `dictionary` may be nullptr.
bool set_up(ZSTD_CCtx* packer, int level, const ZSTD_CDict* dictionary) noexcept {
  return good({ZSTD_CCtx_setParameter(packer, ZSTD_c_compressionLevel, level),
               ZSTD_CCtx_setParameter(packer, ZSTD_c_contentSizeFlag, 0),
               ZSTD_CCtx_setParameter(packer, ZSTD_c_dictIDFlag, 0),
               ZSTD_CCtx_setParameter(packer, ZSTD_c_format, ZSTD_f_zstd1_magicless),
               ZSTD_CCtx_refCDict(packer, dictionary)});
}

// Both sides of a dictionary, which refer to its bytes.
class ZstdDictionary final : public Dictionary {
 public:
  explicit ZstdDictionary(DictionaryBytes bytes) noexcept : bytes_(std::move(bytes)) {}

  // False for lack of memory, or where the bytes aren't the trained dictionary that they begin as.
  bool prepare(int level) noexcept {
    packing_.reset(ZSTD_createCDict_byReference(bytes_->data(), bytes_->size(), level));
    unpacking_.reset(ZSTD_createDDict_byReference(bytes_->data(), bytes_->size()));
    return packing_ && unpacking_ && measure(level);
  }

  const ZSTD_CDict* packing() const noexcept { return packing_.get(); }
  const ZSTD_DDict* unpacking() const noexcept { return unpacking_.get(); }
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

 private:
  // No estimate that zstd offers takes the dictionary's part in choosing tables into account, so a
  // context that grows by itself packs one page and is measured.
  bool measure(int level) noexcept {
    const std::unique_ptr<ZSTD_CCtx, FreeCCtx> context(ZSTD_createCCtx());
    if (!context || !set_up(context.get(), level, packing_.get())) return false;
    constexpr std::array<std::byte, kPageBytes> kPage{};
    std::array<std::byte, kPackRoomBytes> room;
    if (!good({ZSTD_compress2(context.get(), room.data(), room.size(), kPage.data(),
                              kPage.size())})) {
      return false;
    }
    constexpr std::size_t kAlignments = 1024;
    workspace_bytes_ = ZSTD_sizeof_CCtx(context.get()) + kAlignments;
    return true;
  }

  const DictionaryBytes bytes_;
  std::unique_ptr<ZSTD_CDict, FreeCDict> packing_;
  std::unique_ptr<ZSTD_DDict, FreeDDict> unpacking_;
  std::size_t workspace_bytes_ = 0;  // of a stream's packing context
};

class ZstdStream final : public Stream {
 public:
  static Result<std::shared_ptr<const Dictionary>> prepare(DictionaryBytes bytes, int level) {
    const auto dictionary = std::make_shared<ZstdDictionary>(bytes);
    if (dictionary->prepare(level)) return dictionary;
    if (is_trained(*bytes)) {
      return fail(Status::invalid_argument,
                  "dictionary: begins as a trained one of zstd, but is damaged");
    }
    return fail(Status::no_memory, "dictionary: no memory for zstd's tables");
  }

  // Both contexts take their memory here and never again: packing can't fail for lack of it. The
  // workspace is of the size that a 4 KiB source needs (72-270 KiB by level), and what it holds is
  // touched by the first pack.
  static std::unique_ptr<Stream> make(const StreamOptions& options) {
    std::unique_ptr<ZstdStream> stream(new (std::nothrow) ZstdStream);
    if (!stream || !stream->prepare(options)) return nullptr;
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
  bool prepare(const StreamOptions& options) {
    dictionary_ = std::static_pointer_cast<const ZstdDictionary>(options.dictionary);
    const std::size_t bytes =
        dictionary_
            ? dictionary_->workspace_bytes()
            : ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(options.level, kPageBytes, 0));
    workspace_.reset(new (std::nothrow) std::byte[bytes]);
    unpacker_.reset(ZSTD_createDCtx());
    if (!workspace_ || !unpacker_) return false;
    packer_ = ZSTD_initStaticCCtx(workspace_.get(), bytes);
    if (packer_ == nullptr) return false;
    return set_up(packer_, options.level, dictionary_ ? dictionary_->packing() : nullptr) &&
           good({ZSTD_DCtx_setParameter(unpacker_.get(), ZSTD_d_format, ZSTD_f_zstd1_magicless),
                 ZSTD_DCtx_refDDict(unpacker_.get(),
                                    dictionary_ ? dictionary_->unpacking() : nullptr)});
  }

  std::shared_ptr<const ZstdDictionary> dictionary_;  // the contexts refer to it
  std::unique_ptr<std::byte[]> workspace_;            // packer_ lives in it
  ZSTD_CCtx* packer_ = nullptr;
  std::unique_ptr<ZSTD_DCtx, FreeDCtx> unpacker_;
};

}  // namespace

const Codec& zstd_codec() {
  static const Codec& codec = *new CodecOf<ZstdStream>({.name = "zstd",
                                                        .level_min = kLevelMin,
                                                        .level_max = kLevelMax,
                                                        .level_default = kLevelDefault,
                                                        .dictionary = true});
  return codec;
}

}  // namespace uzram::codec
