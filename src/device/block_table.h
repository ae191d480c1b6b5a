// The blocks of a backing store: which are in use, by how much, and what they must read.
//
// What: an 8-byte entry for each block. A block is free when it is neither live nor pinned.
//     bits 0-46   check: of a block that one raw page fills, a hash of its bytes; of packed
//     objects,
//                 the number of the run that they were written with
//     bits 47-54  where the object begins that goes on in the next block, in units; 0: none does
//     bits 55-62  live: objects that lie in the block, or partly
//     bit 63      pinned: claimed by who is about to write or to discard it
//   With nothing under way, used() is the number of live blocks, and every block's live is the
//   number of slots whose object touches it.
// Units: blocks of backing::kBlockBytes; places in them in units of kBackedUnitBytes.
// Ownership: who claimed a run unpins it; who made an object in it gives that back.
// Threading: any, but an object is given back while no reset can run (with a context). Claims and
//   resets meet at a mutex, giving back takes none.
// Errors: a claim is empty where nothing is free.
#ifndef UZRAM_DEVICE_BLOCK_TABLE_H_
#define UZRAM_DEVICE_BLOCK_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory_map.h"
#include "base/mutex.h"

namespace uzram::device {

inline constexpr std::uint64_t kBackedUnitBytes = 16;

struct BlockRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

class BlockTable {
 public:
  static constexpr std::uint64_t kCheckMask = (std::uint64_t{1} << 47) - 1;

  static Result<std::unique_ptr<BlockTable>> create(std::uint64_t block_count);

  // Live ones, and those that are claimed to be written.
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  // Pins free neighbours, at most `count_max`.
  BlockRun claim(std::uint64_t count_max) noexcept;
  // The same of blocks that were written since they were last discarded, for who discards them.
  // They do not count as used meanwhile.
  BlockRun claim_stale(std::uint64_t count_max) noexcept;
  // Ends a claim: what is not live by now is free. `discarded`: and no longer stale.
  void unpin(BlockRun run, bool discarded = false) noexcept;
  // Ends a claim of blocks that something late may still be written to: nobody is to have them
  // again.
  void abandon(BlockRun run) noexcept { used_.fetch_sub(run.count, std::memory_order_relaxed); }
  bool any_stale() const noexcept { return stale_free_.load(std::memory_order_relaxed) > 0; }

  // For the claimer, before the first object is made in the block.
  void set_check(std::uint64_t block, std::uint64_t check) noexcept;
  // Makes an object live: it begins at `unit` of the block, and may go on in the next.
  void make(std::uint64_t block, std::uint64_t unit, bool goes_on) noexcept;
  void give(std::uint64_t block, std::uint64_t unit) noexcept;

  std::uint64_t check_of(std::uint64_t block) const noexcept;
  // Of a live object: whether it goes on in the next block.
  bool goes_on(std::uint64_t block, std::uint64_t unit) const noexcept;

  // No object is live any more. Pinned blocks stay so. Changes the epoch: objects made before are
  // not given back.
  void reset() noexcept;
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }

  // For checks. Over all blocks: the objects that lie in each.
  std::uint64_t live(std::uint64_t block) const noexcept;
  std::uint64_t live_total() noexcept;

 private:
  // Blocks that share a count of free ones.
  static constexpr std::uint64_t kGroupBlocks = 1024;

  BlockTable(std::uint64_t block_count, base::MemoryMap entries, base::MemoryMap stale,
             std::uint64_t group_count);
  bool is_free(std::uint64_t block) const noexcept;
  bool is_stale(std::uint64_t block) const noexcept;
  void set_stale(std::uint64_t block, bool stale) noexcept;
  void pin(BlockRun run) noexcept UZRAM_REQUIRES(claims_);
  template <typename Wanted>
  BlockRun find(std::uint64_t from, std::uint64_t to, std::uint64_t count_max,
                Wanted wanted) const noexcept UZRAM_REQUIRES(claims_);
  void drop(std::uint64_t block) noexcept;
  void note_free(std::uint64_t block) noexcept;

  const std::uint64_t block_count_;
  base::MemoryMap entry_memory_, stale_memory_;
  std::atomic<std::uint64_t>* const entries_;
  std::atomic<std::uint64_t>* const stale_;  // a bit for each block
  std::vector<std::atomic<std::int64_t>> group_free_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::int64_t> stale_free_{0};
  std::atomic<std::uint64_t> epoch_{0};
  base::Mutex claims_;
  std::uint64_t next_ UZRAM_GUARDED_BY(claims_) = 0;  // where the next claim begins to look
  std::uint64_t end_ UZRAM_GUARDED_BY(claims_) = 0;   // no block from here on was ever claimed
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_BLOCK_TABLE_H_
