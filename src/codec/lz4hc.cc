// lz4hc: packs slower and denser than lz4, unpacks the same. Levels 3..12 are lz4's own for it; the
// default is 9, as in the kernel's zram.
#include <lz4hc.h>

#include "codec/builtin.h"

namespace uzram::codec {
namespace {

struct FreeStream {
  void operator()(LZ4_streamHC_t* state) const noexcept { LZ4_freeStreamHC(state); }
};
using State = std::unique_ptr<LZ4_streamHC_t, FreeStream>;

class Lz4hcStream final : public Stream {
 public:
  Lz4hcStream(State state, int level) noexcept : state_(std::move(state)), level_(level) {}

  static Result<std::shared_ptr<const Dictionary>> prepare(DictionaryBytes bytes, int level);
  static std::unique_ptr<Stream> make(const StreamOptions& options);

  // Reset and continue: the one-shot call clears 256 KiB for each page. The reset moves the tables'
  // origin past everything before, so no match reaches into an earlier page.
  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    LZ4_resetStreamHC_fast(state_.get(), level_);
    const int size =
        LZ4_compress_HC_continue(state_.get(), reinterpret_cast<const char*>(page.data()),
                                 reinterpret_cast<char*>(room.data()),
                                 static_cast<int>(page.size()), static_cast<int>(room.size()));
    if (size > 0) return static_cast<std::size_t>(size);
    // After a failure the state is undefined, and the fast reset not enough.
    LZ4_initStreamHC(state_.get(), sizeof(LZ4_streamHC_t));
    return 0;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    return lz4_unpack(packed, out);
  }

 private:
  const State state_;
  const int level_;
};

class Lz4hcDictionary final : public Dictionary {
 public:
  Lz4hcDictionary(DictionaryBytes bytes, State state, int level) noexcept
      : bytes_(std::move(bytes)), reach_(lz4_reach(bytes_)), state_(std::move(state)) {
    LZ4_resetStreamHC_fast(state_.get(), level);
    LZ4_loadDictHC(state_.get(), reinterpret_cast<const char*>(reach_.data()),
                   static_cast<int>(reach_.size()));
  }

  std::span<const std::byte> reach() const noexcept { return reach_; }
  // Refers to the dictionary's bytes, and holds the level.
  const LZ4_streamHC_t& state() const noexcept { return *state_; }

 private:
  const DictionaryBytes bytes_;
  const std::span<const std::byte> reach_;
  const State state_;
};

class Lz4hcDictionaryStream final : public Stream {
 public:
  Lz4hcDictionaryStream(std::shared_ptr<const Lz4hcDictionary> dictionary, State state) noexcept
      : dictionary_(std::move(dictionary)), state_(std::move(state)) {}

  // The state with the dictionary is copied for each page, 256 KiB. Attaching it instead made no
  // clear difference, and lz4 1.9.4 does not export the call.
  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    *state_ = dictionary_->state();
    const int size =
        LZ4_compress_HC_continue(state_.get(), reinterpret_cast<const char*>(page.data()),
                                 reinterpret_cast<char*>(room.data()),
                                 static_cast<int>(page.size()), static_cast<int>(room.size()));
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    return lz4_unpack(packed, dictionary_->reach(), out);
  }

 private:
  const std::shared_ptr<const Lz4hcDictionary> dictionary_;
  const State state_;
};

Result<std::shared_ptr<const Dictionary>> Lz4hcStream::prepare(DictionaryBytes bytes, int level) {
  State state(LZ4_createStreamHC());
  if (!state) return fail(Status::no_memory, "dictionary: no memory for its match tables");
  return std::make_shared<const Lz4hcDictionary>(std::move(bytes), std::move(state), level);
}

std::unique_ptr<Stream> Lz4hcStream::make(const StreamOptions& options) {
  State state(LZ4_createStreamHC());
  if (!state) return nullptr;
  if (!options.dictionary) {
    return std::unique_ptr<Stream>(new (std::nothrow) Lz4hcStream(std::move(state), options.level));
  }
  auto dictionary = std::static_pointer_cast<const Lz4hcDictionary>(options.dictionary);
  return std::unique_ptr<Stream>(
      new (std::nothrow) Lz4hcDictionaryStream(std::move(dictionary), std::move(state)));
}

}  // namespace

const Codec& lz4hc_codec() {
  static const Codec& codec = *new CodecOf<Lz4hcStream>({.name = "lz4hc",
                                                         .level_min = LZ4HC_CLEVEL_MIN,
                                                         .level_max = LZ4HC_CLEVEL_MAX,
                                                         .level_default = LZ4HC_CLEVEL_DEFAULT,
                                                         .dictionary = true});
  return codec;
}

}  // namespace uzram::codec
