// Pages of every kind that a device treats differently.
//
// What: seeded page contents. Units: kPageBytes. Ownership, threading: values. Errors: none.
#ifndef UZRAM_TESTS_SUPPORT_PAGES_H_
#define UZRAM_TESTS_SUPPORT_PAGES_H_

#include <array>
#include <cstring>
#include <random>

#include "uzram/device.h"

namespace uzram::test {

using Page = std::array<std::byte, kPageBytes>;

enum class PageKind : int {
  zero,
  same_byte,    // one byte repeated
  same_word,    // one 8-byte word repeated
  almost_same,  // one word repeated but for one byte
  text,         // packs well
  half,         // random bytes, then text: packs to a chosen size
  incompressible
};
inline constexpr int kPageKinds = 7;

inline void fill_random(std::mt19937_64& random, std::byte* at, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(at + i, &word, std::min<std::size_t>(8, bytes - i));
  }
}

inline Page make_page(std::mt19937_64& random, PageKind kind) {
  Page page{};
  std::uint64_t word = random();
  switch (kind) {
    case PageKind::zero:
      break;
    case PageKind::same_byte:
      page.fill(static_cast<std::byte>(word));
      break;
    case PageKind::same_word:
    case PageKind::almost_same:
      for (std::size_t i = 0; i < page.size(); i += 8) std::memcpy(&page[i], &word, 8);
      if (kind == PageKind::almost_same) page[random() % page.size()] ^= std::byte{1};
      break;
    case PageKind::text:
    case PageKind::half: {
      const std::size_t noise = kind == PageKind::half ? random() % page.size() : 16;
      fill_random(random, page.data(), noise);
      for (std::size_t i = noise; i < page.size(); ++i) {
        page[i] = static_cast<std::byte>("uzram keeps pages "[i % 18]);
      }
      break;
    }
    case PageKind::incompressible:
      fill_random(random, page.data(), page.size());
      break;
  }
  return page;
}

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_PAGES_H_
