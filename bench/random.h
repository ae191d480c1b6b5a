// Random numbers of the benchmarks, the same on every machine.
//
// What: splitmix64 as a mixer and as a sequence. Units: none. Ownership: values.
// Threading: one sequence per thread. Errors: none.
#ifndef UZRAM_BENCH_RANDOM_H_
#define UZRAM_BENCH_RANDOM_H_

#include <cstdint>

namespace uzram::bench {

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return mix(mix(a) ^ b);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(mix(seed)) {}
  std::uint64_t next() noexcept { return mix(state_++); }
  // 0 .. bound - 1; the bias is at most bound / 2^32, which no benchmark can see.
  std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_RANDOM_H_
