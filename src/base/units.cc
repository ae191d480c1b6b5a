#include "base/units.h"

#include <charconv>
#include <cstdio>

namespace uzram::base {
namespace {

Result<std::uint64_t> parse_digits(std::string_view digits, std::string_view text,
                                   std::string_view rule, std::uint64_t unit, std::uint64_t max) {
  if (digits.empty()) {
    return fail(Status::invalid_argument, "'" + std::string(text) + "': " + std::string(rule));
  }
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') {
      return fail(Status::invalid_argument, "'" + std::string(text) + "': " + std::string(rule));
    }
    const std::uint64_t digit = static_cast<std::uint64_t>(c - '0');
    std::uint64_t next = 0;
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &next) ||
        __builtin_add_overflow(next, digit, &next) || next > max / unit) {
      return fail(Status::invalid_argument,
                  "'" + std::string(text) + "': larger than " + std::to_string(max));
    }
    value = next;
  }
  return value * unit;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t max) {
  constexpr std::string_view kSuffixes = "KMGT";
  std::uint64_t unit = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    const char last = digits.back() >= 'a' ? static_cast<char>(digits.back() - 32) : digits.back();
    const auto power = kSuffixes.find(last);
    if (power != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (power + 1));
      digits.remove_suffix(1);
    }
  }
  return parse_digits(digits, text, "not a size (digits, then at most one of K M G T)", unit, max);
}

Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t max) {
  return parse_digits(text, text, "not a number (decimal digits alone)", 1, max);
}

Result<int> parse_int(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && parsed == end) return number;
  return fail(Status::invalid_argument, "'" + std::string(text) + "': not a whole number");
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes);
  constexpr std::string_view kSuffixes = "KMGTPE";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t power = 0;
  while (value >= 1024 && power + 1 < kSuffixes.size()) {
    value /= 1024;
    ++power;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%c", value, kSuffixes[power]);
  return text;
}

}  // namespace uzram::base
