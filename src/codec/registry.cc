#include <algorithm>
#include <string>

#include "codec/builtin.h"

namespace uzram {
namespace codec {
namespace {

std::vector<const Codec*> built_in() {
  std::vector<const Codec*> codecs = {&lz4_codec(), &lz4hc_codec()};
#ifdef UZRAM_LZO
  if (const Codec* lzo = lzo_codec()) codecs.push_back(lzo);
#endif
  codecs.push_back(&zstd_codec());
  codecs.push_back(&deflate_codec());
  return codecs;
}

}  // namespace

const std::vector<const Codec*>& registry() {
  // Never destroyed, like the codecs: a thread may still use them while the process exits.
  static const auto& codecs = *new std::vector<const Codec*>(built_in());
  return codecs;
}

const Codec* find(std::string_view name) {
  const auto& all = registry();
  const auto found = std::find_if(
      all.begin(), all.end(), [name](const Codec* codec) { return codec->info().name == name; });
  return found == all.end() ? nullptr : *found;
}

Result<int> check_level(const Codec& codec, std::optional<int> level) {
  const CodecInfo& info = codec.info();
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

}  // namespace codec

std::vector<CodecInfo> codecs() {
  std::vector<CodecInfo> infos;
  for (const codec::Codec* codec : codec::registry()) infos.push_back(codec->info());
  return infos;
}

}  // namespace uzram
