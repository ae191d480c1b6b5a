#include "control/codec_settings.h"

#include "codec/codec.h"
#include "control/attributes.h"

namespace uzram::control {

Result<CodecChoice> check_codec(const CodecChoice& choice) {
  const codec::Codec* const codec = codec::find(choice.name);
  if (codec == nullptr) {
    return fail(Status::invalid_argument,
                "codec '" + choice.name + "': unknown, known are: " + codec_names());
  }
  const auto checked = codec::check_params(*codec, choice.params);
  if (!checked) return tl::unexpected(checked.error());
  return CodecChoice{codec->info().name, choice.params};
}

}  // namespace uzram::control
