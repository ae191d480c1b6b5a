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

  static std::unique_ptr<Stream> make(int level) {
    State state(LZ4_createStreamHC());
    if (!state) return nullptr;
    return std::unique_ptr<Stream>(new (std::nothrow) Lz4hcStream(std::move(state), level));
  }

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

}  // namespace

const Codec& lz4hc_codec() {
  static const Codec& codec = *new CodecOf<Lz4hcStream>({.name = "lz4hc",
                                                         .level_min = LZ4HC_CLEVEL_MIN,
                                                         .level_max = LZ4HC_CLEVEL_MAX,
                                                         .level_default = LZ4HC_CLEVEL_DEFAULT});
  return codec;
}

}  // namespace uzram::codec
