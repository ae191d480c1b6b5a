// A backing store in memory, with faults under the test's control.
//
// What: blocks in an array; Ios fail, wait or come back changed as the test says. Within a batch
//   the Io that was started last ends first, so that nothing comes to depend on their order.
//   Discarded blocks are filled with kDiscardedByte, so that reading one shows.
// Units: backing::kBlockBytes; the nth Io counts from 0, from the call that names it.
// Ownership: owns its bytes. Threading: one mutex over all; a held Io waits outside it.
// Errors: an Io that is told to fail gets that status and moves no bytes.
#ifndef UZRAM_TESTS_SUPPORT_FAKE_STORE_H_
#define UZRAM_TESTS_SUPPORT_FAKE_STORE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backing/store.h"
#include "base/mutex.h"

namespace uzram::test {

class FakeStore final : public backing::Store {
 public:
  using Kind = backing::Io::Kind;
  static constexpr std::byte kDiscardedByte{0xdd};

  explicit FakeStore(std::uint64_t block_count, std::string where = "fake");

  // Every Io of the kind fails from now on; Status::ok ends it.
  void fail_all(Kind kind, Status status);
  // The nth from now on fails, once; others as before.
  void fail_nth(Kind kind, std::uint64_t n, Status status);
  // Failed writes are uncertain ones from now on, and every discard is.
  void lose_answers();
  // Changes one bit of what is stored. `bit` is below kBlockBytes * 8.
  void flip_bit(std::uint64_t block, std::uint64_t bit);

  // Ios of the kind wait from now on, after they started and before they move any bytes; with
  // `block`, only those that touch it.
  void hold(Kind kind, std::optional<std::uint64_t> block = std::nullopt);
  // Lets the held ones go on, and ends all holding.
  void release();
  // Waits until at least `count` Ios are held.
  void wait_until_held(unsigned count) const;

  // Ios that ended, failed ones too.
  std::uint64_t count(Kind kind) const;
  // The most Ios that were started and not ended, over all batches.
  unsigned in_flight_peak() const;
  // (first block, blocks), as they were given.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> discards() const;
  // Waits until at least `blocks` have been discarded.
  void wait_until_discarded(std::uint64_t blocks) const;
  std::vector<std::byte> block(std::uint64_t index) const;

  const std::string& where() const noexcept override { return where_; }
  std::uint64_t block_count() const noexcept override { return block_count_; }
  void run(std::span<backing::Io> batch, unsigned in_flight_max) noexcept override;
  bool discard(std::uint64_t first_block, std::uint64_t count) noexcept override;
  // Held Ios fail at once.
  void shut_down() noexcept override;

 private:
  struct Faults {
    Status all = Status::ok;
    Status nth = Status::ok;
    std::uint64_t nth_at = 0;  // `ended` of the Io that gets `nth`
    bool hold = false;
    std::optional<std::uint64_t> hold_block;
    std::uint64_t ended = 0;
  };

  static std::size_t index(Kind kind) { return static_cast<std::size_t>(kind); }
  bool is_held(const backing::Io& io) const UZRAM_REQUIRES(mutex_);
  void finish(backing::Io& io) UZRAM_REQUIRES(mutex_);

  const std::string where_;
  const std::uint64_t block_count_;
  mutable base::Mutex mutex_;
  mutable base::CondVar held_changed_;
  base::CondVar released_;
  std::vector<std::byte> bytes_ UZRAM_GUARDED_BY(mutex_);
  std::array<Faults, 2> faults_ UZRAM_GUARDED_BY(mutex_);
  bool shut_down_ UZRAM_GUARDED_BY(mutex_) = false;
  unsigned held_ UZRAM_GUARDED_BY(mutex_) = 0;
  unsigned in_flight_ UZRAM_GUARDED_BY(mutex_) = 0;
  unsigned in_flight_peak_ UZRAM_GUARDED_BY(mutex_) = 0;
  bool answers_lost_ UZRAM_GUARDED_BY(mutex_) = false;
  mutable base::CondVar discarded_;
  std::uint64_t discarded_blocks_ UZRAM_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> discards_ UZRAM_GUARDED_BY(mutex_);
};

}  // namespace uzram::test

#endif  // UZRAM_TESTS_SUPPORT_FAKE_STORE_H_
