// A codec and its parameters as people choose them, by attributes or by options of `start`.
//
// What: judges them when they are chosen, not when the device is made; reads dictionaries.
// Units: bytes. Ownership: values; a dictionary is shared and no longer tied to its file.
// Threading: any thread; reading waits for the file's disk. Errors: invalid_argument and those of
//   codec::check_params, naming what was asked for and the rule.
#ifndef UZRAM_CONTROL_CODEC_SETTINGS_H_
#define UZRAM_CONTROL_CODEC_SETTINGS_H_

#include <string>

#include "codec/codec.h"
#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::control {

// The choice by the codec's own name: lzo for lzo-rle.
Result<CodecChoice> check_codec(const CodecChoice& choice);

// A regular file of 1 byte to kDictionaryBytesMax. Fails with invalid_argument whatever is wrong;
// the message says why, and leaves it to the caller to name the path as it was given.
Result<codec::DictionaryBytes> read_dictionary(const std::string& path);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_CODEC_SETTINGS_H_
