#include "device/write_stage.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace uzram::device {
namespace {

using backing::kBlockBytes;
// So many writes of kRunBlocks are in flight at most.
constexpr std::uint32_t kRunsMax = 256;
// Objects of a run that a stage has the room to list; more small ones than these end it early.
constexpr std::size_t kPagesPerRun = 256;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result<WriteStage> WriteStage::create(BackingArea& area, WriteBudget& budget,
                                      std::uint32_t runs_max) {
  const std::size_t runs = std::clamp(runs_max, 1U, kRunsMax);
  auto memory = base::MemoryMap::reserve(runs * kRunBytes);
  if (!memory) return tl::unexpected(memory.error());
  try {
    return WriteStage(area, budget, std::move(*memory), runs);
  } catch (const std::bad_alloc&) {
    return fail(Status::no_memory, "write-back: out of memory");
  }
}

WriteStage::WriteStage(BackingArea& area, WriteBudget& budget, base::MemoryMap memory,
                       std::size_t runs_max)
    : area_(&area), budget_(&budget), memory_(std::move(memory)), runs_max_(runs_max) {
  runs_.reserve(runs_max);
  ios_.reserve(runs_max);
  pages_.reserve(runs_max * kPagesPerRun);
}

// A packed object is a little smaller than a block even with its header, so that it never touches
// more than two.
std::uint64_t WriteStage::room_for(std::uint32_t bytes) noexcept {
  static_assert(pool::kPackedBytesMax + sizeof(BackedHeader) <= kBlockBytes);
  return bytes == kPageBytes ? kPageBytes
                             : round_up(sizeof(BackedHeader) + bytes, kBackedUnitBytes);
}

bool WriteStage::has_room(std::uint32_t bytes) const noexcept {
  const std::size_t open = open_run(bytes == kPageBytes);
  if (open == kNone || pages_.size() == pages_.capacity()) return false;
  if (!is_of_now()) return false;
  return runs_[open].used_bytes + room_for(bytes) <= runs_[open].blocks.count * kBlockBytes;
}

WriteStage::Room WriteStage::make_room(std::uint32_t bytes) noexcept {
  const bool raw = bytes == kPageBytes;
  // After a reset, what is staged goes nowhere, and then the stage may begin anew.
  if (runs_.empty()) epoch_ = area_->blocks().epoch();
  if (has_room(bytes)) return Room::there;
  if (runs_.size() == runs_max_ || pages_.size() == pages_.capacity() || !is_of_now()) {
    return Room::full;
  }
  // Where nothing is left, what the stage holds too much may do.
  Run run;
  const std::uint64_t paid = budget_->take(kRunBlocks, run.budget);
  if (paid == 0) return runs_.empty() ? Room::no_budget : Room::full;
  run.blocks = area_->blocks().claim(paid);
  budget_->give(paid - run.blocks.count, run.budget);
  if (run.blocks.count == 0) return runs_.empty() ? Room::no_blocks : Room::full;
  if (!raw) {
    run.number = area_->next_run_number();
    for (std::uint64_t i = 0; i < run.blocks.count; ++i) {
      area_->blocks().set_check(run.blocks.first + i, run.number);
    }
  }
  open_run(raw) = runs_.size();
  runs_.push_back(run);
  return Room::there;
}

WriteStage::Place WriteStage::place(std::uint32_t bytes) const noexcept {
  const bool raw = bytes == kPageBytes;
  const std::size_t open = open_run(raw);
  const Run& run = runs_[open];
  const std::uint64_t block = run.blocks.first + run.used_bytes / kBlockBytes;
  const std::uint64_t unit = run.used_bytes % kBlockBytes / kBackedUnitBytes;
  return {raw ? BackingArea::raw_word(block) : BackingArea::packed_word(block, unit), run.number,
          std::span(bytes_of(open) + run.used_bytes, raw ? bytes : sizeof(BackedHeader) + bytes)};
}

void WriteStage::add(Slot& slot, SlotId id, bool was_idle, std::uint32_t bytes) noexcept {
  const Place place = this->place(bytes);
  const bool raw = bytes == kPageBytes;
  const std::size_t open = open_run(raw);
  const std::uint64_t block = BackingArea::block_of(place.word);
  const std::uint64_t unit = BackingArea::unit_of(place.word);
  if (raw) area_->blocks().set_check(block, BackingArea::raw_check(id, place.bytes));
  // No byte goes to the store that nobody put there.
  const std::uint64_t room = room_for(bytes);
  std::memset(place.bytes.data() + place.bytes.size(), 0, room - place.bytes.size());
  area_->blocks().make(block, unit, unit * kBackedUnitBytes + place.bytes.size() > kBlockBytes);
  runs_[open].used_bytes += room;
  pages_.push_back({&slot, place.word, open, was_idle});
}

// Gives back the blocks that it does not need, and clears the rest of its last one.
void WriteStage::close(Run& run, std::byte* bytes) noexcept {
  const std::uint64_t needed = round_up(run.used_bytes, kBlockBytes);
  std::memset(bytes + run.used_bytes, 0, needed - run.used_bytes);
  const std::uint64_t kept = needed / kBlockBytes, spare = run.blocks.count - kept;
  if (spare == 0) return;
  area_->blocks().unpin({run.blocks.first + kept, spare});
  budget_->give(spare, run.budget);
  run.blocks.count = kept;
}

Status WriteStage::write(std::uint32_t in_flight_max) noexcept {
  raw_run_ = packed_run_ = kNone;
  ios_.clear();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Run& run = runs_[i];
    close(run, bytes_of(i));
    if (run.blocks.count == 0) continue;
    ios_.push_back({backing::Io::Kind::write, run.blocks.first * kBlockBytes,
                    std::span(bytes_of(i), run.blocks.count * kBlockBytes)});
  }
  area_->store().run(ios_, in_flight_max);
  Status last = Status::ok;
  auto io = ios_.begin();
  for (Run& run : runs_) {
    if (run.blocks.count == 0) continue;
    run.status = io->status;
    run.uncertain = (io++)->uncertain;
    if (run.status != Status::ok) last = run.status;
  }
  return last;
}

void WriteStage::settle() noexcept {
  for (const Run& run : runs_) {
    if (run.uncertain) {
      area_->blocks().abandon(run.blocks);
    } else {
      area_->blocks().unpin(run.blocks);
    }
    if (run.status == Status::ok) {
      area_->count_written(run.blocks.count);
    } else {
      budget_->give(run.blocks.count, run.budget);
    }
  }
  runs_.clear();
  pages_.clear();
}

}  // namespace uzram::device
