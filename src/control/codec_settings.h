// A codec and its parameters as people choose them, by attributes or by options of `start`.
//
// What: judges them when they are chosen, not when the device is made. Units: bytes.
// Ownership: values. Threading: any thread. Errors: invalid_argument and those of
//   codec::check_params, naming what was asked for and the rule.
#ifndef UZRAM_CONTROL_CODEC_SETTINGS_H_
#define UZRAM_CONTROL_CODEC_SETTINGS_H_

#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::control {

// The choice by the codec's own name: lzo for lzo-rle.
Result<CodecChoice> check_codec(const CodecChoice& choice);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_CODEC_SETTINGS_H_
