#include "bench/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace uzram::bench {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() noexcept {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)
#if defined(__x86_64__)
#define UZRAM_CRC32C_TARGET __attribute__((target("sse4.2")))
UZRAM_CRC32C_TARGET std::uint32_t step8(std::uint32_t crc, std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
UZRAM_CRC32C_TARGET std::uint32_t step1(std::uint32_t crc, std::uint8_t byte) noexcept {
  return _mm_crc32_u8(crc, byte);
}
bool have_instruction() noexcept {
  static const bool have = __builtin_cpu_supports("sse4.2") != 0;
  return have;
}
#else
#define UZRAM_CRC32C_TARGET
std::uint32_t step8(std::uint32_t crc, std::uint64_t word) noexcept {
  return __crc32cd(crc, word);
}
std::uint32_t step1(std::uint32_t crc, std::uint8_t byte) noexcept {
  return __crc32cb(crc, byte);
}
constexpr bool have_instruction() noexcept {
  return true;
}
#endif

UZRAM_CRC32C_TARGET std::uint32_t crc32c_instruction(std::span<const std::byte> bytes,
                                                     std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    crc = step8(crc, word);
    bytes = bytes.subspan(sizeof word);
  }
  for (const std::byte byte : bytes) crc = step1(crc, static_cast<std::uint8_t>(byte));
  return ~crc;
}
#else
constexpr bool have_instruction() noexcept {
  return false;
}
std::uint32_t crc32c_instruction(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return crc32c_portable(bytes, before);
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return have_instruction() ? crc32c_instruction(bytes, before) : crc32c_portable(bytes, before);
}

}  // namespace uzram::bench
