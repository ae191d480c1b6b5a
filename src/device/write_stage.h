// Pages on their way to the backing store.
//
// What: a batch of runs of blocks and the bytes that are to be written there. A run holds raw
// pages,
//   a block each, or packed objects one after the other; its blocks are claimed, and paid for from
//   the budget, when it is opened, and what it did not need is given back before it is written.
// Units: blocks, bytes. Ownership: owns the bytes, and claims the blocks until `settle`.
// Threading: one pass. `place` and `add` are called with a context, so that no reset comes between;
//   `write` waits for the store, with nothing held.
// Errors: `make_room` tells why there is none.
#ifndef UZRAM_DEVICE_WRITE_STAGE_H_
#define UZRAM_DEVICE_WRITE_STAGE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backing/store.h"
#include "base/memory_map.h"
#include "device/backing_area.h"
#include "device/write_budget.h"

namespace uzram::device {

class WriteStage {
 public:
  // full: to be written first.
  enum class Room : std::uint8_t { there, full, no_blocks, no_budget };
  struct Place {
    SlotWord word;                 // that the page is to have
    std::uint64_t run_number = 0;  // of packed objects
    std::span<std::byte> bytes;    // for the page, or for header and packed bytes
  };
  struct Page {
    Slot* slot = nullptr;
    SlotWord word;
    std::size_t run = 0;
    bool was_idle = false;
  };

  // Of up to `runs_max` runs, which is bounded.
  static Result<WriteStage> create(BackingArea& area, WriteBudget& budget, std::uint32_t runs_max);

  bool empty() const noexcept { return pages_.empty(); }
  std::span<const Page> pages() const noexcept { return pages_; }
  Status status_of(const Page& page) const noexcept { return runs_[page.run].status; }
  // Whether no reset came since the first page was staged.
  bool is_of_now() const noexcept { return area_->blocks().epoch() == epoch_; }

  // `bytes`: kPageBytes for a raw page, else those of the packed object.
  bool has_room(std::uint32_t bytes) const noexcept;
  Room make_room(std::uint32_t bytes) noexcept;
  // Where there is room.
  Place place(std::uint32_t bytes) const noexcept;
  // The bytes are in their place.
  void add(Slot& slot, SlotId id, bool was_idle, std::uint32_t bytes) noexcept;

  // Writes what is there. The status of the last run that failed, or ok.
  Status write(std::uint32_t in_flight_max) noexcept;
  // Ends the claims, once every page has its new word or gave its place back. Empty afterwards.
  void settle() noexcept;

 private:
  struct Run {
    BlockRun blocks;
    std::uint64_t number = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t budget = 0;  // the budget that its blocks were paid from
    Status status = Status::ok;
    bool uncertain = false;
  };
  static constexpr std::uint64_t kRunBytes = kRunBlocks * backing::kBlockBytes;
  static constexpr std::size_t kNone = ~std::size_t{0};

  WriteStage(BackingArea& area, WriteBudget& budget, base::MemoryMap memory, std::size_t runs_max);
  std::size_t& open_run(bool raw) noexcept { return raw ? raw_run_ : packed_run_; }
  std::size_t open_run(bool raw) const noexcept { return raw ? raw_run_ : packed_run_; }
  std::byte* bytes_of(std::size_t run) const noexcept { return memory_.data() + run * kRunBytes; }
  static std::uint64_t room_for(std::uint32_t bytes) noexcept;
  void close(Run& run, std::byte* bytes) noexcept;

  BackingArea* area_;
  WriteBudget* budget_;
  base::MemoryMap memory_;
  std::size_t runs_max_;
  std::uint64_t epoch_ = 0;
  std::vector<Run> runs_;
  std::vector<backing::Io> ios_;
  std::vector<Page> pages_;
  std::size_t raw_run_ = kNone, packed_run_ = kNone;  // those that more pages go to
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_WRITE_STAGE_H_
