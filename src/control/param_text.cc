#include "control/param_text.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace uzram::control {
namespace {

tl::unexpected<Error> refuse(std::string_view word, std::string_view why) {
  return fail(Status::invalid_argument, "'" + std::string(word) + "': " + std::string(why));
}

template <typename Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && parsed == end;
}

}  // namespace

Result<void> for_each_param(std::string_view text, const SetParam& set) {
  constexpr std::string_view kBlanks = " \t\n";
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos || sign == 0 || sign + 1 == word.size()) {
      return refuse(word, "must be KEY=VALUE");
    }
    auto done = set(word.substr(0, sign), word.substr(sign + 1));
    if (!done) return refuse(word, done.error().message);
    begin = text.find_first_not_of(kBlanks, end);
  }
  return {};
}

Result<int> parse_int(std::string_view text) {
  int number = 0;
  if (parse_whole(text, number)) return number;
  return fail(Status::invalid_argument, "not a whole number");
}

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  if (parse_whole(text, number) && number <= most) return number;
  return fail(Status::invalid_argument, "not a whole number up to " + std::to_string(most));
}

}  // namespace uzram::control
