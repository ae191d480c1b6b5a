#include <algorithm>
#include <string>

#include "codec/builtin.h"

namespace uzram {
namespace codec {
namespace {

constexpr int kWindowBitsMin = 8;
constexpr int kWindowBitsMax = 15;

std::vector<const Codec*> built_in() {
  std::vector<const Codec*> codecs = {&lz4_codec(), &lz4hc_codec()};
#ifdef UZRAM_LZO
  if (const Codec* lzo = lzo_codec()) codecs.push_back(lzo);
#endif
  codecs.push_back(&zstd_codec());
  codecs.push_back(&deflate_codec());
  return codecs;
}

// The level asked for, or the default.
Result<int> check_level(const CodecInfo& info, std::optional<int> level) {
  const int value = level.value_or(info.level_default);
  if (value >= info.level_min && value <= info.level_max) return value;
  const std::string what = "level " + std::to_string(value) + ": ";
  if (info.level_min == info.level_max) {
    return fail(Status::invalid_argument, what + info.name + " has no levels");
  }
  return fail(Status::invalid_argument, what + info.name + " takes " +
                                            std::to_string(info.level_min) + " to " +
                                            std::to_string(info.level_max));
}

Result<void> check_window_bits(const CodecInfo& info, std::optional<int> bits) {
  if (!bits) return {};
  const std::string what = "window bits " + std::to_string(*bits) + ": ";
  if (!info.window_bits) {
    return fail(Status::invalid_argument, what + info.name + " has no window to choose");
  }
  const bool wrapped = *bits >= kWindowBitsMin && *bits <= kWindowBitsMax;
  const bool raw = *bits >= -kWindowBitsMax && *bits <= -kWindowBitsMin;
  if (wrapped || raw) return {};
  return fail(Status::invalid_argument, what + info.name + " takes 8 to 15, or -15 to -8");
}

Result<void> check_dictionary(const CodecInfo& info, std::span<const std::byte> bytes) {
  if (!info.dictionary) {
    return fail(Status::not_supported, "dictionary: " + info.name + " takes none");
  }
  if (bytes.empty()) return fail(Status::invalid_argument, "dictionary: is empty");
  if (bytes.size() <= kDictionaryBytesMax) return {};
  return fail(Status::invalid_argument, "dictionary of " + std::to_string(bytes.size()) +
                                            " bytes: more than " +
                                            std::to_string(kDictionaryBytesMax));
}

}  // namespace

const std::vector<const Codec*>& registry() {
  // Never destroyed, like the codecs: a thread may still use them while the process exits.
  static const auto& codecs = *new std::vector<const Codec*>(built_in());
  return codecs;
}

const Codec* find(std::string_view name) {
  // The name that many scripts select. Its runs of zeros would take changes inside LZO's own
  // compressor, and pages that differ by that alone look the same from outside: lzo serves.
  if (name == "lzo-rle") name = "lzo";
  const auto& all = registry();
  const auto found = std::find_if(
      all.begin(), all.end(), [name](const Codec* codec) { return codec->info().name == name; });
  return found == all.end() ? nullptr : *found;
}

Result<StreamOptions> check_params(const Codec& codec, const CodecParams& params) {
  const Result<int> level = check_level(codec.info(), params.level);
  if (!level) return tl::unexpected(level.error());
  if (const auto checked = check_window_bits(codec.info(), params.window_bits); !checked) {
    return tl::unexpected(checked.error());
  }
  StreamOptions options{.level = *level};
  if (!params.dictionary) return options;
  if (const auto checked = check_dictionary(codec.info(), *params.dictionary); !checked) {
    return tl::unexpected(checked.error());
  }
  try {
    auto dictionary = codec.prepare(params.dictionary, *level);
    if (!dictionary) return tl::unexpected(dictionary.error());
    options.dictionary = std::move(*dictionary);
  } catch (const std::bad_alloc&) {
    return fail(Status::no_memory, "dictionary: no memory to prepare it");
  }
  return options;
}

}  // namespace codec

std::vector<CodecInfo> codecs() {
  std::vector<CodecInfo> infos;
  for (const codec::Codec* codec : codec::registry()) infos.push_back(codec->info());
  return infos;
}

}  // namespace uzram
