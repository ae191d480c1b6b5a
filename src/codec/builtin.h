// The codecs that are built in, and what their files share.
//
// What: one function for each codec, naming its only instance, and the maker of its streams.
// Units: bytes. Ownership: the codecs are immortal.
// Threading: any thread. Errors: no_memory from make().
#ifndef UZRAM_CODEC_BUILTIN_H_
#define UZRAM_CODEC_BUILTIN_H_

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "codec/codec.h"

namespace uzram::codec {

const Codec& lz4_codec();
const Codec& lz4hc_codec();
// nullptr when liblzo2 refuses: it was built for other type sizes than its headers. Defined only in
// builds with UZRAM_LZO.
const Codec* lzo_codec();
const Codec& zstd_codec();
const Codec& deflate_codec();

// What lz4 and lz4hc, which write the same format, share. A match reaches 64 KiB back, so the rest
// of a dictionary is as if it weren't there.
std::span<const std::byte> lz4_reach(const DictionaryBytes& dictionary) noexcept;
bool lz4_unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept;
bool lz4_unpack(std::span<const std::byte> packed, std::span<const std::byte> dictionary,
                PlainPageOut out) noexcept;

// A codec whose streams are made by the static S::make(options): nullptr where the system refused
// the memory. Codecs with dictionaries have S::prepare as well.
template <typename S>
class CodecOf final : public Codec {
 public:
  explicit CodecOf(CodecInfo info) : info_(std::move(info)) {}

  const CodecInfo& info() const noexcept override { return info_; }

  Result<std::unique_ptr<Stream>> make_stream(const StreamOptions& options) const override {
    std::unique_ptr<Stream> stream = S::make(options);
    if (!stream) return fail(Status::no_memory, info_.name + ": no memory for a codec stream");
    return stream;
  }

  Result<std::shared_ptr<const Dictionary>> prepare([[maybe_unused]] DictionaryBytes bytes,
                                                    [[maybe_unused]] int level) const override {
    if constexpr (requires { S::prepare(std::move(bytes), level); }) {
      return S::prepare(std::move(bytes), level);
    } else {
      return fail(Status::not_supported, "dictionary: " + info_.name + " takes none");
    }
  }

 private:
  const CodecInfo info_;
};

}  // namespace uzram::codec

#endif  // UZRAM_CODEC_BUILTIN_H_
