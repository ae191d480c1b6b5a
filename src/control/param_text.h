// Values that are made of parameters: "type=idle threshold=888".
//
// What: takes such text apart, as the kernel's driver writes it. Units: none. Ownership: none.
// Threading: pure. Errors: invalid_argument naming the word and the rule.
#ifndef UZRAM_CONTROL_PARAM_TEXT_H_
#define UZRAM_CONTROL_PARAM_TEXT_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "uzram/result.h"

namespace uzram::control {

// Calls `take` for each word of `text`, separated by blanks; where it fails, the word is named.
using TakeWord = std::function<Result<void>(std::string_view word)>;
Result<void> for_each_word(std::string_view text, const TakeWord& take);
// Calls `set` for each KEY=VALUE of `text`, separated by blanks; where it fails, `text` is refused.
using SetParam = std::function<Result<void>(std::string_view key, std::string_view value)>;
Result<void> for_each_param(std::string_view text, const SetParam& set);

Result<int> parse_int(std::string_view text);
// Decimal, up to `most`.
Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t most);

}  // namespace uzram::control

#endif  // UZRAM_CONTROL_PARAM_TEXT_H_
