// The verify profile: what was written is what is read.
//
// What: each thread writes its own records in random order, each stamped with its offset, a
//   generation and a CRC-32C, then reads them all back in another order and checks; again and again
//   while there is time. Records smaller than a page share pages with those of other threads.
// Units: bytes. Ownership: a Verifier owns its buffers; the plan and the device outlive it.
// Threading: a Verifier belongs to one thread once its team has started.
// Errors: io_error at the first mismatch, one line with offset, expected and found.
#ifndef UZRAM_BENCH_VERIFY_H_
#define UZRAM_BENCH_VERIFY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/load.h"

namespace uzram::bench {

// Stamps the record in place.
void stamp_record(std::span<std::byte> record, std::uint64_t offset,
                  std::uint32_t generation) noexcept;
// What is wrong with the record that was read at `offset`, if anything. Generation 0: it was never
// written and must read zero.
std::optional<Error> check_record(std::span<const std::byte> record, std::uint64_t offset,
                                  std::uint32_t generation);

class Verifier {
 public:
  Verifier(const Plan& plan, unsigned thread, Device& device);
  void run(Tally& tally);

 private:
  // Both are false after a failure; `write_pass` also ends early, without one, when time is over.
  bool write_pass(std::uint64_t deadline, Tally& tally);
  bool read_pass(Tally& tally);
  bool submit(std::span<Request> batch, Tally& tally);
  Request request(Op op, std::uint64_t slot, std::uint64_t record) noexcept;
  Order order(std::uint64_t pass) const noexcept;
  std::span<std::byte> buffer(std::uint64_t slot) noexcept;

  const Plan& plan_;
  const unsigned thread_;
  Device& device_;
  std::vector<Request> requests_;
  std::vector<std::byte> buffers_;
  std::vector<std::uint32_t> generations_;  // of this thread's records, by number / threads
  std::uint32_t generation_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_VERIFY_H_
