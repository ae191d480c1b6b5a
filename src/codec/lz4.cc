// lz4: the level is lz4's acceleration, as in the kernel's zram. 1, the default, packs densest;
// each step above trades density for speed, until from about 4080 on no match is found in a page.
// The range ends where lz4's does: it takes anything above for 65537.
#include <lz4.h>

#include <algorithm>

#include "codec/builtin.h"

namespace uzram::codec {
namespace {

constexpr int kAccelerationMax = 65537;

struct FreeStream {
  void operator()(LZ4_stream_t* state) const noexcept { LZ4_freeStream(state); }
};
using State = std::unique_ptr<LZ4_stream_t, FreeStream>;

class Lz4Stream final : public Stream {
 public:
  Lz4Stream(State state, int level) noexcept : state_(std::move(state)), level_(level) {}

  static Result<std::shared_ptr<const Dictionary>> prepare(DictionaryBytes bytes, int /*level*/);
  static std::unique_ptr<Stream> make(const StreamOptions& options);

  // The one-shot call clears its 16 KiB of hash table for each page, and is the better choice all
  // the same: for inputs below 64 KiB it fits twice the entries into it. Against
  // reset-and-continue, which clears nothing: 13 % slower on pages half random, half zero, but
  // 25-35 % faster and up to 2 % denser on text, programs and mixed data.
  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    const int size = LZ4_compress_fast_extState(
        state_.get(), reinterpret_cast<const char*>(page.data()),
        reinterpret_cast<char*>(room.data()), static_cast<int>(page.size()),
        static_cast<int>(room.size()), level_);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    return lz4_unpack(packed, out);
  }

 private:
  const State state_;
  const int level_;
};

class Lz4Dictionary final : public Dictionary {
 public:
  Lz4Dictionary(DictionaryBytes bytes, State state) noexcept
      : bytes_(std::move(bytes)), reach_(lz4_reach(bytes_)), state_(std::move(state)) {
    LZ4_loadDict(state_.get(), reinterpret_cast<const char*>(reach_.data()),
                 static_cast<int>(reach_.size()));
  }

  std::span<const std::byte> reach() const noexcept { return reach_; }
  // Refers to the dictionary's bytes.
  const LZ4_stream_t& state() const noexcept { return *state_; }

 private:
  const DictionaryBytes bytes_;
  const std::span<const std::byte> reach_;
  const State state_;
};

// A class of its own, so that pages without a dictionary pay nothing for it.
class Lz4DictionaryStream final : public Stream {
 public:
  Lz4DictionaryStream(std::shared_ptr<const Lz4Dictionary> dictionary, State state,
                      int level) noexcept
      : dictionary_(std::move(dictionary)), state_(std::move(state)), level_(level) {}

  // The state with the dictionary is copied for each page, 16 KiB. Attaching it instead made no
  // clear difference, and lz4 1.9.4 does not export the call; loading it anew takes half as long
  // again. What a dictionary costs is the search in it.
  std::size_t pack(PlainPage page, PackRoom room) noexcept override {
    *state_ = dictionary_->state();
    const int size = LZ4_compress_fast_continue(
        state_.get(), reinterpret_cast<const char*>(page.data()),
        reinterpret_cast<char*>(room.data()), static_cast<int>(page.size()),
        static_cast<int>(room.size()), level_);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }

  bool unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept override {
    return lz4_unpack(packed, dictionary_->reach(), out);
  }

 private:
  const std::shared_ptr<const Lz4Dictionary> dictionary_;
  const State state_;
  const int level_;
};

Result<std::shared_ptr<const Dictionary>> Lz4Stream::prepare(DictionaryBytes bytes, int) {
  State state(LZ4_createStream());
  if (!state) return fail(Status::no_memory, "dictionary: no memory for its hash table");
  return std::make_shared<const Lz4Dictionary>(std::move(bytes), std::move(state));
}

std::unique_ptr<Stream> Lz4Stream::make(const StreamOptions& options) {
  State state(LZ4_createStream());
  if (!state) return nullptr;
  if (!options.dictionary) {
    return std::unique_ptr<Stream>(new (std::nothrow) Lz4Stream(std::move(state), options.level));
  }
  auto dictionary = std::static_pointer_cast<const Lz4Dictionary>(options.dictionary);
  return std::unique_ptr<Stream>(new (std::nothrow) Lz4DictionaryStream(
      std::move(dictionary), std::move(state), options.level));
}

}  // namespace

std::span<const std::byte> lz4_reach(const DictionaryBytes& dictionary) noexcept {
  constexpr std::size_t kReachBytes = 64 << 10;
  return std::span(*dictionary).last(std::min(dictionary->size(), kReachBytes));
}

bool lz4_unpack(std::span<const std::byte> packed, PlainPageOut out) noexcept {
  if (packed.size() > kPackRoomBytes) return false;
  const int size = LZ4_decompress_safe(
      reinterpret_cast<const char*>(packed.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(packed.size()), static_cast<int>(out.size()));
  return size == static_cast<int>(out.size());
}

bool lz4_unpack(std::span<const std::byte> packed, std::span<const std::byte> dictionary,
                PlainPageOut out) noexcept {
  if (packed.size() > kPackRoomBytes) return false;
  const int size = LZ4_decompress_safe_usingDict(
      reinterpret_cast<const char*>(packed.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(packed.size()), static_cast<int>(out.size()),
      reinterpret_cast<const char*>(dictionary.data()), static_cast<int>(dictionary.size()));
  return size == static_cast<int>(out.size());
}

const Codec& lz4_codec() {
  static const Codec& codec = *new CodecOf<Lz4Stream>({.name = "lz4",
                                                       .level_min = 1,
                                                       .level_max = kAccelerationMax,
                                                       .level_default = 1,
                                                       .dictionary = true});
  return codec;
}

}  // namespace uzram::codec
