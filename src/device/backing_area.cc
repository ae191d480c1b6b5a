#include "device/backing_area.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/thread.h"
#include "pool/pool.h"

namespace uzram::device {
namespace {

using backing::kBlockBytes;
constexpr std::uint64_t kUnitsPerBlock = kBlockBytes / kBackedUnitBytes;
static_assert(BackingArea::kBlocksMax * kUnitsPerBlock <= std::uint64_t{1} << pool::kObjectRefBits);
// Reads in flight for one request.
constexpr unsigned kReadsMax = 64;

}  // namespace

void Fetched::Free::operator()(std::byte* at) const noexcept {
  ::operator delete[](at, std::align_val_t{kBlockBytes});
}

const Fetched::Page* Fetched::find(SlotId slot, SlotWord word, std::uint64_t check) const noexcept {
  for (const Page& page : std::span(pages_).first(count_)) {
    if (page.slot == slot) return page.word == word && page.check == check ? &page : nullptr;
  }
  return nullptr;
}

Result<std::unique_ptr<BackingArea>> BackingArea::create(std::shared_ptr<backing::Store> store) {
  auto blocks = BlockTable::create(std::min(store->block_count(), kBlocksMax));
  if (!blocks) return tl::unexpected(blocks.error());
  // What an earlier process left on the store must not pass for what this one wrote.
  std::uint64_t first_run = 0;
  if (::getrandom(&first_run, sizeof first_run, 0) != sizeof first_run) {
    return fail_errno(errno, "backing store: random number");
  }
  return std::unique_ptr<BackingArea>(
      new BackingArea(std::move(store), std::move(*blocks), first_run));
}

BackingArea::BackingArea(std::shared_ptr<backing::Store> store, std::unique_ptr<BlockTable> blocks,
                         std::uint64_t first_run)
    : store_(std::move(store)),
      blocks_(std::move(blocks)),
      next_run_(first_run),
      discarder_([this] { discard_on_demand(); }) {
  ::pthread_setname_np(discarder_.native_handle(), "uzram-discard");
}

BackingArea::~BackingArea() {
  constexpr std::chrono::seconds kPatience{2};
  bool hangs = false;
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (discarding_ && !hangs) hangs = !changed_.wait_until(mutex_, deadline);
  }
  // Otherwise the store is left as it is: another device may be made with it.
  if (hangs) store_->shut_down();
  discarder_.join();
}

std::uint64_t BackingArea::block_of(SlotWord word) noexcept {
  return word.kind() == Kind::backed_raw ? word.payload() : word.payload() / kUnitsPerBlock;
}

std::uint64_t BackingArea::unit_of(SlotWord word) noexcept {
  return word.kind() == Kind::backed_raw ? 0 : word.payload() % kUnitsPerBlock;
}

SlotWord BackingArea::raw_word(std::uint64_t block) noexcept {
  return SlotWord(Kind::backed_raw, block);
}

SlotWord BackingArea::packed_word(std::uint64_t block, std::uint64_t unit) noexcept {
  return SlotWord(Kind::backed_packed, block * kUnitsPerBlock + unit);
}

bool BackingArea::note(Fetched& fetched, SlotId slot, SlotWord word) const noexcept {
  if (fetched.count_ == Fetched::kPagesMax) return false;
  Fetched::Page& page = fetched.pages_[fetched.count_++];
  page = {};
  page.slot = slot;
  page.word = word;
  page.check = check_of(word);
  page.block_count = blocks_->goes_on(block_of(word), unit_of(word)) ? 2 : 1;
  return true;
}

void BackingArea::fetch(Fetched& fetched) noexcept {
  std::array<Fetched::Page*, Fetched::kPagesMax> order;
  std::size_t count = fetched.count_;
  for (std::size_t i = 0; i < count; ++i) order[i] = &fetched.pages_[i];
  fetched.together_ = read(std::span(order).first(count), true);
  // A fault of one block is not its neighbours' fault.
  count = 0;
  for (Fetched::Page& page : std::span(fetched.pages_).first(fetched.count_)) {
    if (page.status != Status::ok) order[count++] = &page;
  }
  if (count > 0) fetched.alone_ = read(std::span(order).first(count), false);
  for (Fetched::Page& page : std::span(fetched.pages_).first(fetched.count_)) {
    if (page.status == Status::ok) check(page);
  }
}

Fetched::Buffer BackingArea::read(std::span<Fetched::Page*> pages, bool together) noexcept {
  std::sort(pages.begin(), pages.end(), [](const Fetched::Page* a, const Fetched::Page* b) {
    return block_of(a->word) < block_of(b->word);
  });
  std::uint64_t room = 0;
  for (const Fetched::Page* page : pages) room += page->block_count;
  Fetched::Buffer buffer(new (std::align_val_t{kBlockBytes}, std::nothrow)
                             std::byte[room * kBlockBytes]);
  if (!buffer) {
    for (Fetched::Page* page : pages) page->status = Status::no_memory;
    return buffer;
  }
  std::array<backing::Io, Fetched::kPagesMax> ios;
  std::array<std::size_t, Fetched::kPagesMax> io_of;
  std::size_t count = 0;
  std::uint64_t begin = 0, end = 0;  // of the last Io, in blocks
  std::byte* at = buffer.get();
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::uint64_t block = block_of(pages[i]->word);
    if (count == 0 || !together || block > end) {
      at += (end - begin) * kBlockBytes;
      begin = end = block;
      ++count;
    }
    end = std::max(end, block + pages[i]->block_count);
    ios[count - 1] = {backing::Io::Kind::read, begin * kBlockBytes,
                      std::span(at, (end - begin) * kBlockBytes)};
    io_of[i] = count - 1;
    pages[i]->blocks = {at + (block - begin) * kBlockBytes, pages[i]->block_count * kBlockBytes};
  }
  const auto made = std::span(ios).first(count);
  store_->run(made, kReadsMax);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i]->status = ios[io_of[i]].status;
  for (const backing::Io& io : made) {
    if (io.status == Status::ok) read_.fetch_add(io.data.size() / kBlockBytes);
  }
  return buffer;
}

void BackingArea::check(Fetched::Page& page) noexcept {
  page.status = Status::io_error;
  if (page.word.kind() == Kind::backed_raw) {
    if (raw_check(page.slot, page.blocks) != page.check) return;
    page.bytes = page.blocks;
  } else {
    BackedHeader header;
    const std::size_t at = unit_of(page.word) * kBackedUnitBytes;
    std::memcpy(&header, page.blocks.data() + at, sizeof header);
    const ObjectHeader object(header.object);
    const std::size_t room = page.blocks.size() - at - sizeof header;
    if (object.bytes() > pool::kPackedBytesMax || object.bytes() > room) return;
    page.bytes = page.blocks.subspan(at + sizeof header, object.bytes());
    if (object.owner() != page.slot ||
        packed_check(object, page.check, page.bytes) != header.check) {
      return;
    }
    page.codec = object.codec();
  }
  page.status = Status::ok;
}

std::uint64_t BackingArea::raw_check(SlotId slot, std::span<const std::byte> page) noexcept {
  return XXH3_64bits_withSeed(page.data(), page.size(), slot) & BlockTable::kCheckMask;
}

std::uint64_t BackingArea::packed_check(ObjectHeader header, std::uint64_t run_number,
                                        std::span<const std::byte> packed) noexcept {
  const std::array<std::uint64_t, 2> seed = {header.bits(), run_number};
  return XXH3_64bits_withSeed(packed.data(), packed.size(), XXH3_64bits(seed.data(), sizeof seed));
}

void BackingArea::reset() noexcept {
  blocks_->reset();
  read_.store(0, std::memory_order_relaxed);
  written_.store(0, std::memory_order_relaxed);
}

void BackingArea::discard_stale() noexcept {
  if (!blocks_->any_stale()) return;
  {
    const base::MutexLock lock(mutex_);
    discards_wanted_ = true;
  }
  changed_.notify_all();
}

void BackingArea::wait_for_discard() noexcept {
  const base::MutexLock lock(mutex_);
  while (discarding_) changed_.wait(mutex_);
}

bool BackingArea::discard_some() noexcept {
  constexpr std::uint64_t kBlocksAtOnce = 4096;
  {
    const base::MutexLock lock(mutex_);
    if (stopping_) return false;
    discarding_ = true;
  }
  const BlockRun run = blocks_->claim_stale(kBlocksAtOnce);
  if (run.count > 0) {
    // Where it may still come to happen, the blocks stay claimed for good.
    if (store_->discard(run.first, run.count)) blocks_->unpin(run, true);
  }
  {
    const base::MutexLock lock(mutex_);
    discarding_ = false;
  }
  changed_.notify_all();
  return run.count > 0;
}

void BackingArea::discard_on_demand() noexcept {
  base::leave_signals_to_main();
  for (;;) {
    {
      const base::MutexLock lock(mutex_);
      while (!discards_wanted_ && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      discards_wanted_ = false;
    }
    while (discard_some()) {
    }
  }
}

}  // namespace uzram::device
