// The order in which a thread visits its records.
//
// What: `Permutation` visits 0..n-1, each once, in an order that looks random and costs a few
//   multiplications and no memory. `Order` gives each thread its own records, so that no two
//   threads of a run ever touch the same one: contiguous parts when sequential, every threads-th
//   record when random, so that neighbouring pages belong to different threads.
// Units: record numbers. Ownership, threading: values, const after construction. Errors: none.
#ifndef UZRAM_BENCH_ORDER_H_
#define UZRAM_BENCH_ORDER_H_

#include <bit>
#include <cstdint>

#include "bench/random.h"

namespace uzram::bench {

class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed) noexcept : n_(n) {
    const unsigned bits = n > 1 ? static_cast<unsigned>(std::bit_width(n - 1)) : 1;
    mask_ = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    shift_ = (bits + 1) / 2;
    offset_ = mix(seed, 0);
    factor_[0] = mix(seed, 1) | 1;
    factor_[1] = mix(seed, 2) | 1;
    factor_[2] = mix(seed, 3) | 1;
  }

  // Odd factors and shifts to the right are bijections of `bits` bits; values past the end are sent
  // on until they fall inside, less than twice on average.
  std::uint64_t operator()(std::uint64_t i) const noexcept {
    do {
      i = ((i + offset_) * factor_[0]) & mask_;
      i ^= i >> shift_;
      i = (i * factor_[1]) & mask_;
      i ^= i >> shift_;
      i = (i * factor_[2]) & mask_;
    } while (i >= n_);
    return i;
  }

 private:
  std::uint64_t n_;
  std::uint64_t mask_;
  std::uint64_t offset_;
  std::uint64_t factor_[3];
  unsigned shift_;
};

class Order {
 public:
  // The share of `thread` (0..threads-1) in `records`, visited in random order if `random`.
  Order(std::uint64_t records, unsigned thread, unsigned threads, bool random,
        std::uint64_t seed) noexcept
      : first_(random ? thread : part(records, thread, threads)),
        step_(random ? threads : 1),
        count_(random ? (records - thread + threads - 1) / threads
                      : part(records, thread + 1, threads) - first_),
        random_(random),
        permutation_(count_, seed) {}

  std::uint64_t count() const noexcept { return count_; }
  // The i-th record to visit, i below count().
  std::uint64_t operator()(std::uint64_t i) const noexcept {
    return first_ + step_ * (random_ ? permutation_(i) : i);
  }

 private:
  static constexpr std::uint64_t part(std::uint64_t records, unsigned thread,
                                      unsigned threads) noexcept {
    return records / threads * thread + records % threads * thread / threads;
  }

  std::uint64_t first_;
  std::uint64_t step_;
  std::uint64_t count_;
  bool random_;
  Permutation permutation_;
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_ORDER_H_
