#include "device/block_table.h"

#include <algorithm>
#include <new>
#include <utility>

namespace uzram::device {
namespace {

constexpr unsigned kGoesOnShift = 47, kLiveShift = 55;
constexpr std::uint64_t kPinned = std::uint64_t{1} << 63;
constexpr std::uint64_t kLiveOne = std::uint64_t{1} << kLiveShift;
constexpr std::uint64_t kLiveMask = std::uint64_t{0xff} << kLiveShift;
constexpr std::uint64_t kGoesOnMask = std::uint64_t{0xff} << kGoesOnShift;

constexpr std::uint64_t goes_on_unit(std::uint64_t entry) {
  return (entry & kGoesOnMask) >> kGoesOnShift;
}

}  // namespace

Result<std::unique_ptr<BlockTable>> BlockTable::create(std::uint64_t block_count) {
  auto entries = base::MemoryMap::reserve(block_count * sizeof(std::uint64_t));
  if (!entries) return tl::unexpected(entries.error());
  auto stale = base::MemoryMap::reserve((block_count / 64 + 1) * sizeof(std::uint64_t));
  if (!stale) return tl::unexpected(stale.error());
  const std::uint64_t groups = (block_count + kGroupBlocks - 1) / kGroupBlocks;
  try {
    return std::unique_ptr<BlockTable>(
        new BlockTable(block_count, std::move(*entries), std::move(*stale), groups));
  } catch (const std::bad_alloc&) {
    return fail(Status::no_memory, "backing store: out of memory");
  }
}

BlockTable::BlockTable(std::uint64_t block_count, base::MemoryMap entries, base::MemoryMap stale,
                       std::uint64_t group_count)
    : block_count_(block_count),
      entry_memory_(std::move(entries)),
      stale_memory_(std::move(stale)),
      entries_(reinterpret_cast<std::atomic<std::uint64_t>*>(entry_memory_.data())),
      stale_(reinterpret_cast<std::atomic<std::uint64_t>*>(stale_memory_.data())),
      group_free_(group_count) {
  for (std::uint64_t group = 0; group < group_count; ++group) {
    const std::uint64_t blocks = std::min(kGroupBlocks, block_count - group * kGroupBlocks);
    group_free_[group].store(static_cast<std::int64_t>(blocks), std::memory_order_relaxed);
  }
}

bool BlockTable::is_free(std::uint64_t block) const noexcept {
  return (entries_[block].load(std::memory_order_acquire) & (kPinned | kLiveMask)) == 0;
}

bool BlockTable::is_stale(std::uint64_t block) const noexcept {
  return (stale_[block / 64].load(std::memory_order_relaxed) >> (block % 64) & 1U) != 0;
}

void BlockTable::set_stale(std::uint64_t block, bool stale) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (block % 64);
  if (stale) {
    stale_[block / 64].fetch_or(bit, std::memory_order_relaxed);
  } else {
    stale_[block / 64].fetch_and(~bit, std::memory_order_relaxed);
  }
}

// The first run of `count_max` wanted blocks, else the longest of those looked at.
template <typename Wanted>
BlockRun BlockTable::find(std::uint64_t from, std::uint64_t to, std::uint64_t count_max,
                          Wanted wanted) const noexcept {
  constexpr std::uint64_t kLookAtMost = 4 * kGroupBlocks;
  BlockRun best, run;
  std::uint64_t looked = 0;
  for (std::uint64_t block = from; block < to; ++block) {
    if (block % kGroupBlocks == 0 &&
        group_free_[block / kGroupBlocks].load(std::memory_order_relaxed) <= 0) {
      run = {};
      block += kGroupBlocks - 1;
      continue;
    }
    if (is_free(block) && wanted(block)) {
      if (run.count == 0) run.first = block;
      if (++run.count > best.count) best = run;
      if (best.count == count_max) break;
    } else {
      run = {};
    }
    if (best.count > 0 && ++looked == kLookAtMost) break;
  }
  return best;
}

void BlockTable::pin(BlockRun run) noexcept {
  for (std::uint64_t block = run.first; block < run.first + run.count; ++block) {
    entries_[block].store(kPinned, std::memory_order_relaxed);
    group_free_[block / kGroupBlocks].fetch_sub(1, std::memory_order_relaxed);
    if (is_stale(block)) stale_free_.fetch_sub(1, std::memory_order_relaxed);
  }
}

BlockRun BlockTable::claim(std::uint64_t count_max) noexcept {
  const base::MutexLock lock(claims_);
  const auto any = [](std::uint64_t) { return true; };
  BlockRun run = find(next_, block_count_, count_max, any);
  if (run.count < count_max) {
    const BlockRun other = find(0, block_count_, count_max, any);
    if (other.count > run.count) run = other;
  }
  if (run.count == 0) return run;
  pin(run);
  used_.fetch_add(run.count, std::memory_order_relaxed);
  for (std::uint64_t block = run.first; block < run.first + run.count; ++block) {
    set_stale(block, true);
  }
  next_ = run.first + run.count == block_count_ ? 0 : run.first + run.count;
  end_ = std::max(end_, run.first + run.count);
  return run;
}

BlockRun BlockTable::claim_stale(std::uint64_t count_max) noexcept {
  if (!any_stale()) return {};
  const base::MutexLock lock(claims_);
  const BlockRun run =
      find(0, end_, count_max, [this](std::uint64_t block) { return is_stale(block); });
  if (run.count > 0) pin(run);
  return run;
}

void BlockTable::unpin(BlockRun run, bool discarded) noexcept {
  const base::MutexLock lock(claims_);
  for (std::uint64_t block = run.first; block < run.first + run.count; ++block) {
    if (discarded) set_stale(block, false);
    const std::uint64_t old = entries_[block].fetch_and(~kPinned, std::memory_order_acq_rel);
    if ((old & kLiveMask) != 0) continue;
    if (!discarded) used_.fetch_sub(1, std::memory_order_relaxed);
    note_free(block);
  }
}

void BlockTable::note_free(std::uint64_t block) noexcept {
  if (is_stale(block)) stale_free_.fetch_add(1, std::memory_order_relaxed);
  group_free_[block / kGroupBlocks].fetch_add(1, std::memory_order_relaxed);
}

void BlockTable::set_check(std::uint64_t block, std::uint64_t check) noexcept {
  entries_[block].store(kPinned | (check & kCheckMask), std::memory_order_release);
}

void BlockTable::make(std::uint64_t block, std::uint64_t unit, bool goes_on) noexcept {
  const std::uint64_t where = goes_on ? unit << kGoesOnShift : 0;
  entries_[block].fetch_add(kLiveOne | where, std::memory_order_acq_rel);
  if (goes_on) entries_[block + 1].fetch_add(kLiveOne, std::memory_order_acq_rel);
}

void BlockTable::give(std::uint64_t block, std::uint64_t unit) noexcept {
  if (goes_on(block, unit)) drop(block + 1);
  drop(block);
}

void BlockTable::drop(std::uint64_t block) noexcept {
  const std::uint64_t old = entries_[block].fetch_sub(kLiveOne, std::memory_order_acq_rel);
  if ((old & (kPinned | kLiveMask)) != kLiveOne) return;
  used_.fetch_sub(1, std::memory_order_relaxed);
  // It was written, and is stale from now on; asked by now, it could have been claimed and
  // discarded.
  stale_free_.fetch_add(1, std::memory_order_relaxed);
  group_free_[block / kGroupBlocks].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t BlockTable::check_of(std::uint64_t block) const noexcept {
  return entries_[block].load(std::memory_order_acquire) & kCheckMask;
}

bool BlockTable::goes_on(std::uint64_t block, std::uint64_t unit) const noexcept {
  return unit != 0 && goes_on_unit(entries_[block].load(std::memory_order_acquire)) == unit;
}

void BlockTable::reset() noexcept {
  const base::MutexLock lock(claims_);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  for (std::uint64_t block = 0; block < end_; ++block) {
    const std::uint64_t old = entries_[block].fetch_and(kPinned, std::memory_order_acq_rel);
    if ((old & kPinned) != 0 || (old & kLiveMask) == 0) continue;
    used_.fetch_sub(1, std::memory_order_relaxed);
    note_free(block);
  }
}

std::uint64_t BlockTable::live_total() noexcept {
  const base::MutexLock lock(claims_);
  std::uint64_t total = 0;
  for (std::uint64_t block = 0; block < end_; ++block) total += live(block);
  return total;
}

std::uint64_t BlockTable::live(std::uint64_t block) const noexcept {
  return (entries_[block].load(std::memory_order_acquire) & kLiveMask) >> kLiveShift;
}

}  // namespace uzram::device
