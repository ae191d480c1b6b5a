#include "control/param_text.h"

#include <algorithm>
#include <string>

#include "base/units.h"

namespace uzram::control {
namespace {

tl::unexpected<Error> refuse(std::string_view word, std::string_view why) {
  return fail(Status::invalid_argument, "'" + std::string(word) + "': " + std::string(why));
}

}  // namespace

Result<void> for_each_word(std::string_view text, const TakeWord& take) {
  constexpr std::string_view kBlanks = " \t\n";
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    auto taken = take(word);
    if (!taken) return refuse(word, taken.error().message);
    begin = text.find_first_not_of(kBlanks, end);
  }
  return {};
}

Result<void> for_each_param(std::string_view text, const SetParam& set) {
  return for_each_word(text, [&set](std::string_view word) -> Result<void> {
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos || sign == 0 || sign + 1 == word.size()) {
      return fail(Status::invalid_argument, "must be KEY=VALUE");
    }
    return set(word.substr(0, sign), word.substr(sign + 1));
  });
}

// for_each_word names the word that the number stands in.
Result<int> parse_int(std::string_view text) {
  if (const auto number = base::parse_int(text)) return *number;
  return fail(Status::invalid_argument, "not a whole number");
}

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t most) {
  if (const auto number = base::parse_count(text, most)) return *number;
  return fail(Status::invalid_argument, "not a whole number up to " + std::to_string(most));
}

}  // namespace uzram::control
