// The pass that moves pages to the backing store.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "device/write_stage.h"
#include "device/zram_device.h"

namespace uzram::device {
namespace {

std::vector<PageRange> without_overlaps(std::vector<PageRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const PageRange& a, const PageRange& b) { return a.first < b.first; });
  std::vector<PageRange> merged;
  for (const PageRange& range : ranges) {
    if (merged.empty() || range.first > merged.back().last) {
      merged.push_back(range);
    } else {
      merged.back().last = std::max(merged.back().last, range.last);
    }
  }
  return merged;
}

}  // namespace

// No page is ever twice in a stage: the mark that tells that it was not used since could be that of
// its second time. So no range overlaps another, and a round ends with an empty stage.
struct ZramDevice::WriteBackPass {
  PageClass pages = PageClass::all;
  WriteStage stage;
  Round round = {};
  WriteStage::Room room = WriteStage::Room::there;  // why it stopped
  std::uint64_t moved = 0;
  Status error = Status::ok;  // of the last write that failed
  bool over = false;
};

Result<std::uint64_t> ZramDevice::write_back(const WriteBackOptions& options) {
  if (backing() == nullptr) return fail(Status::no_device, "write-back: no backing store");
  for (const PageRange& range : options.ranges) {
    if (range.first <= range.last && range.last < end_page()) continue;
    return fail(Status::out_of_range, "pages " + std::to_string(range.first) + "-" +
                                          std::to_string(range.last) + ": the device has " +
                                          std::to_string(end_page()));
  }
  if (!begin_pass()) return fail(Status::would_block, "write-back: another pass is under way");
  auto stage = WriteStage::create(*backing(), budget_, budget_.limits().batch_size);
  if (!stage) {
    end_pass();
    return tl::unexpected(stage.error());
  }
  WriteBackPass pass{.pages = options.pages, .stage = std::move(*stage)};
  if (options.ranges.empty()) {
    for (const Round& round : rounds_of(options.pages)) {
      pass.round = round;
      write_back_range(pass, {0, end_page() - 1});
      flush_stage(pass);
    }
  } else {
    for (const PageRange& range : without_overlaps(options.ranges)) write_back_range(pass, range);
    flush_stage(pass);
  }
  end_pass();
  if (pass.error == Status::ok) return pass.moved;
  std::string why(describe(pass.error));
  if (pass.room == WriteStage::Room::no_budget) why = "the budget is used up";
  if (pass.room == WriteStage::Room::no_blocks) why = "the backing store is full";
  return fail(pass.error,
              "write-back: " + why + ", after " + std::to_string(pass.moved) + " pages were moved");
}

void ZramDevice::write_back_range(WriteBackPass& pass, PageRange range) noexcept {
  bool waited = false;  // for blocks that are being discarded
  for (PageIndex page = range.first; page <= range.last && !pass.over;) {
    const PageIndex before = page;
    const Turn turn = take_turn(page, range.last + 1, [&](Context& context, Slot& slot) {
      return stage(context, slot, pass);
    });
    if (page != before) waited = false;
    if (turn == Turn::no_memory) {
      pass.error = Status::no_memory;
      pass.over = true;
    }
    if (turn != Turn::stopped) continue;
    switch (pass.room) {
      case WriteStage::Room::there:
      case WriteStage::Room::full:
        flush_stage(pass);
        break;
      case WriteStage::Room::no_blocks:
        pass.over = std::exchange(waited, true);
        if (pass.over) pass.error = Status::no_space;
        if (!pass.over) backing()->wait_for_discard();
        break;
      case WriteStage::Room::no_budget:
        pass.over = true;
        pass.error = Status::io_error;
        break;
    }
  }
}

// False where there is no room: the pass comes back to the page once there is.
bool ZramDevice::stage(Context& context, Slot& slot, WriteBackPass& pass) noexcept {
  if (!is_of(pass.pages, slot.peek())) return true;
  for (;;) {
    const SlotWord word = slot.lock();
    const std::uint32_t stride = word.has_object() ? stride_of(word) : 0;
    if (!is_of(pass.pages, word) || !pass.round.has(stride)) {
      slot.unlock(word);
      return true;
    }
    const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
    if (pass.pages == PageClass::incompressible && !header.incompressible()) {
      slot.unlock(word);
      return true;
    }
    const auto bytes =
        options().compressed_writeback ? header.bytes() : static_cast<std::uint32_t>(kPageBytes);
    if (pass.stage.has_room(bytes)) {
      const bool loaded = load_to_stage(context, slot, word, pass.stage.place(bytes)) == Status::ok;
      if (loaded) pass.stage.add(slot, slots().id(slot), word.idle(), bytes);
      slot.unlock(loaded ? word.as_marked() : word);
      return true;
    }
    slot.unlock(word);
    pass.room = pass.stage.make_room(bytes);
    if (pass.room != WriteStage::Room::there) return false;
  }
}

// With the slot's lock.
Status ZramDevice::load_to_stage(Context& context, const Slot& slot, SlotWord word,
                                 const WriteStage::Place& place) noexcept {
  if (place.word.kind() == Kind::backed_raw) {
    return load(context, slot, word, PageOut(place.bytes.data(), kPageBytes));
  }
  const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
  if (header.owner() != slots().id(slot)) return Status::io_error;
  const std::span<const std::byte> packed(pool().packed_payload(word.object()), header.bytes());
  const BackedHeader backed{header.bits(),
                            BackingArea::packed_check(header, place.run_number, packed)};
  std::memcpy(place.bytes.data(), &backed, sizeof backed);
  std::memcpy(place.bytes.data() + sizeof backed, packed.data(), packed.size());
  return Status::ok;
}

void ZramDevice::flush_stage(WriteBackPass& pass) noexcept {
  const Status status = pass.stage.write(budget_.limits().batch_size);
  if (status != Status::ok) pass.error = status;
  publish_staged(pass);
  pass.stage.settle();
}

void ZramDevice::publish_staged(WriteBackPass& pass) noexcept {
  constexpr std::size_t kPagesPerTurn = 64;
  const std::span<const WriteStage::Page> pages = pass.stage.pages();
  for (std::size_t done = 0; done < pages.size();) {
    const auto context = lease();
    if (!context) {
      // The system has no memory for one more; those that there are come back.
      std::this_thread::yield();
      continue;
    }
    if (!pass.stage.is_of_now()) return;
    const auto turn = pages.subspan(done, std::min(kPagesPerTurn, pages.size() - done));
    for (const WriteStage::Page& page : turn) {
      if (publish_backed(*context, page, pass.stage.status_of(page))) ++pass.moved;
    }
    done += turn.size();
  }
}

// Whoever used the page since it was staged took the mark off it; then it stays in memory.
bool ZramDevice::publish_backed(Context& context, const WriteStage::Page& page,
                                Status written) noexcept {
  const SlotWord now = page.slot->lock();
  if (now.marked() && written == Status::ok) {
    count_in(context, page.word);
    page.slot->unlock(page.word.used(now.stamp()));
    retire(context, now);
    return true;
  }
  page.slot->unlock(now.marked() && page.was_idle ? now.unmarked().as_idle() : now.unmarked());
  backing()->give(page.word);
  return false;
}

Status ZramDevice::change_write_back_limits(const WriteBackLimitsChange& change) noexcept {
  return budget_.change(change);
}

WriteBackLimits ZramDevice::write_back_limits() const noexcept {
  return budget_.limits();
}

}  // namespace uzram::device
