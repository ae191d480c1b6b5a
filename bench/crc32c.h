// CRC-32C (Castagnoli), the checksum of the verify profile.
//
// What: the usual reflected CRC, initial value and final complement included; computed by the CPU's
//   instruction where it has one. Units: bytes. Ownership: none. Threading: pure. Errors: none.
#ifndef UZRAM_BENCH_CRC32C_H_
#define UZRAM_BENCH_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace uzram::bench {

// The CRC of `bytes`, continuing that of the bytes before them.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;
// The same by tables alone, which is what CPUs without the instruction get.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_CRC32C_H_
