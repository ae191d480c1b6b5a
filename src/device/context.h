// What one request in progress needs for itself: codec stream, scratch pages, magazines, counters.
//
// What: a bounded set of contexts, made when first needed, so that their number follows the
// requests that
//   run at the same time and not the threads or clients there are. A thread gets the one it had
//   last, if it can: its magazines and tables are then still in that processor's cache.
// Units: counters as in Stats. Ownership: the set owns the contexts; a Lease holds one.
// Threading: leasing from any thread; a leased context by its holder alone. With all contexts
// leased a
//   thread sleeps until one is back. Errors: a lease is empty when memory for a new context was
//   refused.
#ifndef UZRAM_DEVICE_CONTEXT_H_
#define UZRAM_DEVICE_CONTEXT_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "codec/codec.h"
#include "device/slot.h"
#include "pool/pool.h"

namespace uzram::device {

class Fetched;

// Changed by the context's holder alone, summed by anybody: no counter is shared by two writers.
class Counter {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void sub(std::uint64_t n) noexcept { add(~n + 1); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void clear() noexcept { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Counters {
  // Of live pages; one context may count a page in and another count it out: only sums mean
  // anything.
  Counter stored_pages, packed_bytes, same_pages, huge_pages;
  Counter huge_pages_since, pages_compacted;
  Counter failed_reads, failed_writes, invalid_io, notify_free;
  Counter reads, read_bytes, writes, write_bytes, discards, discard_bytes, flushes;

  void clear() noexcept {
    for (Counter* counter :
         {&stored_pages, &packed_bytes, &same_pages, &huge_pages, &huge_pages_since,
          &pages_compacted, &failed_reads, &failed_writes, &invalid_io, &notify_free, &reads,
          &read_bytes, &writes, &write_bytes, &discards, &discard_bytes, &flushes}) {
      counter->clear();
    }
  }
};

// A page that is ready to be published: its word, or the decision to store it over the page's old
// object.
struct Prepared {
  SlotWord word;
  bool over_old = false;
};

struct Context {
  // By priority, made when first needed; none on ram devices.
  std::array<std::unique_ptr<codec::Stream>, 1 + kRecompressPriorities> streams;
  Stamp now{};  // of the request or step that is under way
  pool::Cache cache;
  Counters counters;
  std::uint64_t changed_pages = 0;   // since the pool was last looked at
  std::vector<Prepared> prepared;    // of a request of several pages that is stored as one
  const Fetched* fetched = nullptr;  // of the request that is under way
  alignas(64) std::array<std::byte, kPageBytes> page;
  alignas(64) std::array<std::byte, codec::kPackRoomBytes> packed;
};

class ContextSet {
 public:
  using Maker = std::function<std::unique_ptr<Context>()>;  // nullptr when memory was refused

  explicit ContextSet(Maker maker) : maker_(std::move(maker)) {}

  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : set_(std::exchange(other.set_, nullptr)), index_(other.index_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (set_ != nullptr) set_->put_back(index_);
    }
    explicit operator bool() const noexcept { return set_ != nullptr; }
    Context& operator*() const noexcept { return *set_->seats_[index_].context; }
    Context* operator->() const noexcept { return &**this; }

   private:
    friend class ContextSet;
    Lease(ContextSet* set, std::size_t index) noexcept : set_(set), index_(index) {}
    ContextSet* set_;
    std::size_t index_;
  };

  Lease lease() noexcept;

  // Calls `use` for every context that nobody holds now, one after the other.
  template <typename Use>
  void for_each_idle(Use use) noexcept {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      Seat& seat = seats_[i];
      if (seat.taken.exchange(true, std::memory_order_acquire)) continue;
      if (seat.context) use(*seat.context);
      put_back(i);
    }
  }
  // Waits until it holds every context, so that no request runs, and calls `use` for each before it
  // lets any of them go, then `last`.
  template <typename Use, typename Last>
  void exclude_all(Use use, Last last) noexcept {
    for (std::size_t i = 0; i < seats_.size(); ++i) take_seat(i);
    for (Seat& seat : seats_) {
      if (seat.context) use(*seat.context);
    }
    last();
    for (std::size_t i = 0; i < seats_.size(); ++i) put_back(i);
  }
  // The sum of one counter over all contexts.
  std::uint64_t sum(Counter Counters::*counter) const noexcept;

 private:
  static constexpr std::size_t kSeats = 64;
  struct alignas(64) Seat {
    std::atomic<bool> taken{false};
    std::atomic<Context*> published{nullptr};  // for readers that don't hold the seat
    std::unique_ptr<Context> context;          // the holder's
  };

  bool try_seat(std::size_t index) noexcept {
    // In one order with the sleepers' count, or a return and a sleeper could miss each other.
    return !seats_[index].taken.load(std::memory_order_seq_cst) &&
           !seats_[index].taken.exchange(true, std::memory_order_seq_cst);
  }
  // The index, or kSeats when all are taken.
  std::size_t try_any_seat() noexcept;
  void take_seat(std::size_t index) noexcept;
  void put_back(std::size_t index) noexcept;

  Maker maker_;
  std::array<Seat, kSeats> seats_;
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> returns_{0};
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_CONTEXT_H_
