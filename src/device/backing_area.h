// What a device keeps on its backing store: pages that are no longer in memory.
//
// What: which blocks hold what, the reading and checking of pages there, and the discarding of
// blocks that hold nothing any more.
//     A raw page fills one block; a hash of its bytes stands in the block table.
//     A packed page is a header of 16 bytes and the object, at a multiple of 16 bytes in a run of
//     up to kRunBlocks blocks. The header is the object's own (object_header.h) and a hash over
//     that header, the number of the run and the packed bytes. The table knows the number: a block
//     that the store lost, or kept from an earlier time, is told from the right one.
// Units: a place on the store is in units of kBackedUnitBytes; a slot's payload holds it.
// Ownership: shares the store, which nobody else uses. One that holds up the end is shut down.
// Threading: any. `fetch` and the thread that discards wait for the store, with nothing held.
// Errors: a page that can't be read, or is not what was written there, is io_error by itself.
#ifndef UZRAM_DEVICE_BACKING_AREA_H_
#define UZRAM_DEVICE_BACKING_AREA_H_

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <thread>

#include "backing/store.h"
#include "base/mutex.h"
#include "device/block_table.h"
#include "device/object_header.h"
#include "device/slot.h"
#include "device/slot_table.h"

namespace uzram::device {

inline constexpr std::uint64_t kRunBlocks = 16;

// Stands before a packed object on the store.
struct BackedHeader {
  std::uint64_t object = 0;  // ObjectHeader
  std::uint64_t check = 0;
};
static_assert(sizeof(BackedHeader) == kBackedUnitBytes);

// Pages read ahead of a request, which then takes them from here under the slot's lock.
class Fetched {
 public:
  static constexpr std::size_t kPagesMax = 64;

  struct Page {
    SlotId slot = 0;
    SlotWord word;
    std::uint64_t check = 0;        // what the block table said of it
    std::uint64_t block_count = 0;  // one or two
    std::span<std::byte> blocks;
    Status status = Status::ok;        // io_error: not to be had
    unsigned codec = 0;                // packed: that of `bytes`
    std::span<const std::byte> bytes;  // the page, or the packed object
  };

  // The page that this slot's word stands for; nullptr: not here, or changed since.
  const Page* find(SlotId slot, SlotWord word, std::uint64_t check) const noexcept;

 private:
  friend class BackingArea;
  struct Free {
    void operator()(std::byte* at) const noexcept;
  };
  using Buffer = std::unique_ptr<std::byte[], Free>;

  std::array<Page, kPagesMax> pages_;
  std::size_t count_ = 0;
  Buffer together_, alone_;  // of pages read with their neighbours; of those read once more
};

class BackingArea {
 public:
  // More of a larger store is not used: a slot can't name a place beyond.
  static constexpr std::uint64_t kBlocksMax = std::uint64_t{1} << 32;

  static Result<std::unique_ptr<BackingArea>> create(std::shared_ptr<backing::Store> store);
  ~BackingArea();
  BackingArea(const BackingArea&) = delete;
  BackingArea& operator=(const BackingArea&) = delete;

  BlockTable& blocks() noexcept { return *blocks_; }
  const BlockTable& blocks() const noexcept { return *blocks_; }
  backing::Store& store() noexcept { return *store_; }

  static std::uint64_t block_of(SlotWord word) noexcept;
  static std::uint64_t unit_of(SlotWord word) noexcept;
  static SlotWord raw_word(std::uint64_t block) noexcept;
  static SlotWord packed_word(std::uint64_t block, std::uint64_t unit) noexcept;

  std::uint64_t check_of(SlotWord word) const noexcept { return blocks_->check_of(block_of(word)); }
  // The slot that held the word has let it go.
  void give(SlotWord word) noexcept { blocks_->give(block_of(word), unit_of(word)); }

  // Notes a page to be fetched, with its slot's lock; false when there is no more room.
  bool note(Fetched& fetched, SlotId slot, SlotWord word) const noexcept;
  static void clear(Fetched& fetched) noexcept { fetched.count_ = 0; }
  // Reads and checks what was noted.
  void fetch(Fetched& fetched) noexcept;

  static std::uint64_t raw_check(SlotId slot, std::span<const std::byte> page) noexcept;
  static std::uint64_t packed_check(ObjectHeader header, std::uint64_t run_number,
                                    std::span<const std::byte> packed) noexcept;
  std::uint64_t next_run_number() noexcept {
    return next_run_.fetch_add(1, std::memory_order_relaxed) & BlockTable::kCheckMask;
  }

  // Has blocks that hold nothing discarded, by and by.
  void discard_stale() noexcept;
  // Until the call that is under way is over, and the blocks it held are free again.
  void wait_for_discard() noexcept;
  void count_written(std::uint64_t blocks) noexcept {
    written_.fetch_add(blocks, std::memory_order_relaxed);
  }
  std::uint64_t reads() const noexcept { return read_.load(std::memory_order_relaxed); }
  std::uint64_t writes() const noexcept { return written_.load(std::memory_order_relaxed); }
  void reset() noexcept;

 private:
  BackingArea(std::shared_ptr<backing::Store> store, std::unique_ptr<BlockTable> blocks,
              std::uint64_t first_run);
  // Reads the pages into a buffer of their own, neighbours with one Io where `together`.
  Fetched::Buffer read(std::span<Fetched::Page*> pages, bool together) noexcept;
  static void check(Fetched::Page& page) noexcept;
  void discard_on_demand() noexcept;
  bool discard_some() noexcept;

  const std::shared_ptr<backing::Store> store_;
  const std::unique_ptr<BlockTable> blocks_;
  std::atomic<std::uint64_t> next_run_;
  std::atomic<std::uint64_t> read_{0}, written_{0};

  mutable base::Mutex mutex_;
  bool discards_wanted_ UZRAM_GUARDED_BY(mutex_) = false;
  bool discarding_ UZRAM_GUARDED_BY(mutex_) = false;  // a call of the store is under way
  bool stopping_ UZRAM_GUARDED_BY(mutex_) = false;
  base::CondVar changed_;
  std::thread discarder_;  // last: it uses all of the above
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_BACKING_AREA_H_
