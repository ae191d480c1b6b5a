// Sizes and numbers as people write them.
//
// What: the one parser of each and the one printer of sizes. Units: bytes; K M G T are powers of
// 1024. Ownership: values. Threading: pure. Errors: invalid_argument, naming the value and the
// rule.
#ifndef UZRAM_BASE_UNITS_H_
#define UZRAM_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "uzram/result.h"

namespace uzram::base {

// Decimal digits and at most one suffix of K M G T (either case), nothing else: no sign, blank,
// fraction, exponent or hexadecimal. Fails when the value exceeds `max`. 0 is a value here; who
// forbids it says so.
Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t max);
// Decimal digits alone, up to `max`.
Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t max);
// A decimal number that may be negative.
Result<int> parse_int(std::string_view text);
// "512", "4.0K", "1.5G": at most one decimal, for tables that people read.
std::string format_size(std::uint64_t bytes);

}  // namespace uzram::base

#endif  // UZRAM_BASE_UNITS_H_
