// What zram and ram devices share: requests cut into pages, the tables, compaction, counters.
//
// What: `submit` checks and splits requests; the subclass stores and loads pages. Discard,
// write-zeroes
//   and reset need no more than slots and live here.
// Units: bytes and pages. Ownership: owns image, tables, pool, contexts and the maintenance thread.
// Threading: as Device. A request holds a context from start to end, so that reset and resize,
// which
//   take all of them, meet no request. Order of locks: docs/LOCKS.md.
// Errors: as Device.
#ifndef UZRAM_DEVICE_PAGED_DEVICE_H_
#define UZRAM_DEVICE_PAGED_DEVICE_H_

#include <memory>
#include <span>

#include "base/mutex.h"
#include "device/backing_area.h"
#include "device/context.h"
#include "device/fill_table.h"
#include "device/image.h"
#include "device/maintenance.h"
#include "device/object_header.h"
#include "device/slot_table.h"
#include "pool/pool.h"
#include "uzram/device.h"

namespace uzram::device {

using PageIn = std::span<const std::byte, kPageBytes>;
using PageOut = std::span<std::byte, kPageBytes>;

class PagedDevice : public Device, private pool::Mover, private Maintained {
 public:
  ~PagedDevice() override;

  void submit(std::span<Request> batch) noexcept final;
  std::size_t extents(std::uint64_t offset, std::uint64_t length,
                      std::span<Extent> out) const noexcept final;
  Result<void> resize(std::uint64_t size_bytes) final;
  void reset() noexcept final;
  Stats stats() const noexcept final;
  void set_mem_limit(std::uint64_t bytes) noexcept final;
  void reset_mem_used_max() noexcept final { parts_->pool->arena().reset_used_max(); }
  void compact() noexcept final;
  std::size_t page_states(std::uint64_t first_page, std::span<PageState> out) const final;
  const DeviceOptions& options() const noexcept final { return options_; }
  // Does not change while a context is held.
  std::uint64_t size_bytes() const noexcept final { return parts_->image.device_bytes(); }

  // Recomputes counters and conservation laws from a scan; something that is wrong, or empty. Other
  // requests wait meanwhile. For tests.
  std::string check() noexcept;
  AgeClock& age_clock() noexcept { return age_clock_; }
  void sweep_ages() noexcept final;

 protected:
  struct Parts {
    Image image;
    std::unique_ptr<SlotTable> slots;
    std::unique_ptr<FillTable> fills;
    std::unique_ptr<pool::Pool> pool;
    std::unique_ptr<BackingArea> backing;  // none without a store
  };
  static Result<std::unique_ptr<Parts>> make_parts(const DeviceOptions& options);

  PagedDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts, ContextSet::Maker maker);
  // To be called at the end of every subclass's constructor, and at the start of its destructor: in
  // between, the maintenance thread runs.
  void start_maintenance() { maintenance_.start(); }
  void stop_maintenance() noexcept { maintenance_.stop(); }

  // The subclass's pages. `slot` is unlocked before and after; a partial write is one step to
  // everybody else.
  virtual Status read_page(Context& context, Slot& slot, PageOut out) noexcept = 0;
  virtual Status write_part(Context& context, Slot& slot, std::size_t at,
                            std::span<const std::byte> in) noexcept = 0;
  // Zeroes a part of a page; one that is all zero then becomes empty.
  virtual Status zero_part(Context& context, Slot& slot, std::size_t at,
                           std::size_t length) noexcept = 0;
  // Whole pages of one request. All or none where there is a limit; else in order until one fails.
  virtual Status write_pages(Context& context, PageIndex first, std::size_t count,
                             const std::byte* in) noexcept = 0;

  // Fills `out` with what an empty or same-filled page reads.
  void expand_fill(SlotWord word, PageOut out) const noexcept;
  // Room is short: gives the pool what idle contexts and sparse spans hold. With no slot locked.
  void reclaim(Context& context) noexcept;
  // A word's page is counted in before the word is published and out after it was replaced, so that
  // no sample misses a page that is there.
  void count_in(Context& context, SlotWord word) noexcept;
  void publish(Context& context, Slot& slot, SlotWord word) noexcept {
    count_in(context, word);
    retire(context, slot.replace(word.used(context.now)));
  }
  // Counts out, and frees what the word refers to.
  void retire(Context& context, SlotWord word) noexcept;
  // Frees what a word refers to that was never published.
  void release(Context& context, SlotWord word) noexcept;
  void prefetch_object(SlotWord word) const noexcept;
  Slot* slot_to_write(PageIndex page) noexcept { return parts_->slots->take(page); }

  pool::Pool& pool() const noexcept { return *parts_->pool; }
  FillTable& fills() const noexcept { return *parts_->fills; }
  SlotTable& slots() const noexcept { return *parts_->slots; }
  // nullptr without a store.
  BackingArea* backing() const noexcept { return parts_->backing.get(); }
  std::atomic<std::uint64_t>& header_of(SlotWord word) const noexcept {
    return word.kind() == Kind::raw ? pool().raw_header(word.object())
                                    : pool().packed_header(word.object());
  }
  // A pass at a time; whoever gets true calls end_pass.
  bool begin_pass() noexcept { return !pass_under_way_.exchange(true, std::memory_order_acquire); }
  void end_pass() noexcept {
    pass_under_way_.store(false, std::memory_order_release);
    maintenance_.touch();
  }
  ContextSet::Lease lease() noexcept { return contexts_.lease(); }
  // Calls `step` for every slot there is, with a context of which it is the only user; in between
  // resets and other requests get their turn. Ends early where it answers false.
  template <typename Step>
  Status for_each_slot(Step step) noexcept;
  // One turn of that: calls `step` for slots from `page` on, below `end`, and leaves in `page` the
  // first that has not been done. Stops at one for which `step` answers false.
  enum class Turn : std::uint8_t { over, stopped, no_memory };
  template <typename Step>
  Turn take_turn(PageIndex& page, PageIndex end, Step step) noexcept;
  PageIndex end_page() const noexcept { return (size_bytes() - 1) / kPageBytes + 1; }
  bool limited() const noexcept { return pool().arena().limit() != 0; }

 private:
  // Runs requests until one must wait for the backing store; how many.
  std::size_t run_until_blocked(std::span<Request> batch) noexcept;
  Status run(Context& context, const Request& request) noexcept;

  // waiting.cc
  Status run_waiting(const Request& request) noexcept;
  Status run_fetched(const Request& request) noexcept;
  void note_backed(const Request& request, Fetched& fetched) const noexcept;
  void note_page(PageIndex page, Fetched& fetched) const noexcept;
  // The pages of which a change covers a part, and which it must read for that.
  struct Edges {
    std::array<PageIndex, 2> pages{};
    std::size_t count = 0;
  };
  Edges edges_of(const Request& request) const noexcept;
  bool must_fetch(const Context& context, const Request& request) const noexcept;

  Status check_range(const Request& request) const noexcept;
  Status read(Context& context, const Request& request) noexcept;
  Status read_part(Context& context, Slot& slot, std::size_t at, std::span<std::byte> out) noexcept;
  Status write(Context& context, const Request& request) noexcept;
  Status zero(Context& context, const Request& request) noexcept;
  Status zero_pages(Context& context, PageIndex first, PageIndex end, SlotWord word,
                    bool is_discard) noexcept;
  Status zero_edge(Context& context, PageIndex page, std::size_t at, std::size_t length,
                   bool is_discard) noexcept;
  void prefetch(std::span<const Request> batch) const noexcept;
  void count(Context& context, const Request& request) noexcept;

  bool compact_within(Context& context, bool resting) noexcept;
  // A writer's share of compaction while the maintenance thread can't keep up; looks whether that
  // is so once in a while.
  void help_compaction(Context& context, std::uint64_t pages) noexcept;

  // resize.cc
  struct Obstacle;
  Obstacle find_obstacle(Context& context, std::uint64_t size_bytes) noexcept;
  Status check_zero(Context& context, Slot& slot, std::size_t at) noexcept;
  Obstacle resize_alone(Context& context, std::uint64_t size_bytes) noexcept;

  std::string scan() noexcept;

  // pool::Mover
  bool move(pool::ObjectRef from, pool::ObjectRef to, bool raw) noexcept final;
  // Maintained
  Pressure pressure() const noexcept final;
  void refresh() noexcept final;
  bool compact_some(bool resting) noexcept final;
  void rest() noexcept final;

  const DeviceOptions options_;
  std::unique_ptr<Parts> parts_;
  // Slack at which compaction last gained nothing: not worth another try before it has grown.
  std::atomic<std::uint64_t> futile_slack_{0};
  AgeClock age_clock_;
  std::atomic<bool> pass_under_way_{false};
  mutable ContextSet contexts_;
  base::Mutex rest_mutex_;  // held to settle the device, so that who asked for it finds it done
  Maintenance maintenance_;
};

template <typename Step>
PagedDevice::Turn PagedDevice::take_turn(PageIndex& page, PageIndex end, Step step) noexcept {
  constexpr PageIndex kPagesPerTurn = 64;
  const auto context = contexts_.lease();
  if (!context) return Turn::no_memory;
  context->now = Age::stamp(age_clock_.now());
  for (PageIndex done = 0; done < kPagesPerTurn && page < end; ++done, ++page) {
    Slot* slot = slots().find(page);
    if (slot == nullptr) {
      page = slots().next_present(page) - 1;
      continue;
    }
    if (!step(*context, *slot)) return Turn::stopped;
  }
  return Turn::over;
}

template <typename Step>
Status PagedDevice::for_each_slot(Step step) noexcept {
  for (PageIndex page = 0; page < end_page();) {
    const Turn turn = take_turn(page, end_page(), step);
    if (turn == Turn::no_memory) return Status::no_memory;
    if (turn == Turn::stopped) break;
  }
  return Status::ok;
}

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_PAGED_DEVICE_H_
