// The compression codecs of this build, and what can be chosen of one.
//
// What: `codecs` lists them; `CodecParams` holds what a user may set for one of them.
// Units: bytes; a window in bits, the base-2 logarithm of its bytes.
// Ownership: values; a dictionary's bytes are shared and never change.
// Threading: any thread. Errors: the functions here don't fail; parameters are judged where they
//   are handed in.
#ifndef UZRAM_CODEC_H_
#define UZRAM_CODEC_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace uzram {

inline constexpr std::size_t kDictionaryBytesMax = std::size_t{1} << 20;

struct CodecInfo {
  std::string name;
  int level_min = 0, level_max = 0, level_default = 0;  // all 0: the codec has no levels
  bool dictionary = false;                              // takes one
  bool window_bits = false;                             // takes them
};
// In the order in which they are listed to people.
std::vector<CodecInfo> codecs();

struct CodecParams {
  std::optional<int> level = {};  // within the codec's range; none: its default
  // Data like the pages to come: 1 byte to kDictionaryBytesMax; nullptr: none. lz4 and lz4hc reach
  // only the last 64 KiB of it. zstd takes what `zstd --train` made as that, anything else as is.
  std::shared_ptr<const std::vector<std::byte>> dictionary = {};
  // The kernel's `deflate.winbits`: 8 to 15, or -15 to -8. Checked, and otherwise without effect:
  // no match reaches back farther than its page's beginning, so that windows of 12 bits and more
  // are all alike; smaller ones would only pack worse, and whoever unpacks has the full window.
  std::optional<int> window_bits = {};
};

}  // namespace uzram

#endif  // UZRAM_CODEC_H_
