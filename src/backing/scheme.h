// Whether a backing store is named by a URI or by a path.
//
// What: the one rule for it. Units: none. Ownership: the result is part of the argument.
// Threading: values. Errors: none.
#ifndef UZRAM_BACKING_SCHEME_H_
#define UZRAM_BACKING_SCHEME_H_

#include <string_view>

namespace uzram::backing {

// What stands before "://"; empty where `where` is a path.
inline std::string_view scheme_of(std::string_view where) noexcept {
  const std::size_t end = where.find("://");
  if (end == std::string_view::npos) return {};
  const std::string_view scheme = where.substr(0, end);
  return scheme.find('/') == std::string_view::npos ? scheme : std::string_view();
}

}  // namespace uzram::backing

#endif  // UZRAM_BACKING_SCHEME_H_
