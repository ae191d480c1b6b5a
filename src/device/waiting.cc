// Requests that must wait for the backing store: what they need is read ahead of them, with nothing
// held, and then they run as all others do.
#include <algorithm>

#include "device/paged_device.h"

namespace uzram::device {
namespace {

constexpr std::uint64_t kPieceBytes = Fetched::kPagesMax * kPageBytes;

}  // namespace

// A read goes on piece by piece, so that what is fetched stays small.
Status PagedDevice::run_waiting(const Request& request) noexcept {
  Status status = Status::ok;
  if (request.op == Op::read) {
    const std::uint64_t end = request.offset + request.length;
    for (std::uint64_t at = request.offset; at < end && status == Status::ok;) {
      const std::uint64_t next = std::min(end, (at / kPieceBytes + 1) * kPieceBytes);
      Request piece = request;
      piece.offset = at;
      piece.length = next - at;
      piece.data = request.data + (at - request.offset);
      status = run_fetched(piece);
      at = next;
    }
  } else {
    status = run_fetched(request);
  }
  if (status != Status::ok) return status;
  if (const auto context = contexts_.lease()) count(*context, request);
  return status;
}

Status PagedDevice::run_fetched(const Request& request) noexcept {
  Fetched fetched;
  for (;;) {
    note_backed(request, fetched);
    backing()->fetch(fetched);
    const auto context = contexts_.lease();
    if (!context) return Status::no_memory;
    context->now = Age::stamp(age_clock_.now());
    context->fetched = &fetched;
    const Status status = run(*context, request);
    context->fetched = nullptr;
    // Pages that were moved to the store meanwhile have yet to be fetched.
    if (status != Status::would_block) return status;
  }
}

void PagedDevice::note_backed(const Request& request, Fetched& fetched) const noexcept {
  BackingArea::clear(fetched);
  const auto context = contexts_.lease();  // so that no reset comes between
  if (!context) return;
  if (request.op == Op::read) {
    const PageIndex last = (request.offset + request.length - 1) / kPageBytes;
    for (PageIndex page = request.offset / kPageBytes; page <= last; ++page) {
      note_page(page, fetched);
    }
    return;
  }
  const Edges edges = edges_of(request);
  for (const PageIndex page : std::span(edges.pages).first(edges.count)) note_page(page, fetched);
}

void PagedDevice::note_page(PageIndex page, Fetched& fetched) const noexcept {
  Slot* slot = slots().find(page);
  if (slot == nullptr || !slot->peek().is_backed()) return;
  const SlotWord word = slot->lock();
  if (word.is_backed()) backing()->note(fetched, slots().id(*slot), word);
  slot->unlock(word);
}

PagedDevice::Edges PagedDevice::edges_of(const Request& request) const noexcept {
  Edges edges;
  const std::uint64_t end = request.offset + request.length;
  const PageIndex first = request.offset / kPageBytes, last = end / kPageBytes;
  if (request.offset % kPageBytes != 0) edges.pages[edges.count++] = first;
  // Zeroed to its end, the short last page of a device is whole.
  const bool whole = end % kPageBytes == 0 || (request.op != Op::write && end == size_bytes());
  if (!whole && (edges.count == 0 || last != first)) edges.pages[edges.count++] = last;
  return edges;
}

bool PagedDevice::must_fetch(const Context& context, const Request& request) const noexcept {
  const Edges edges = edges_of(request);
  return std::any_of(edges.pages.begin(), edges.pages.begin() + edges.count, [&](PageIndex page) {
    const Slot* slot = slots().find(page);
    const SlotWord word = slot != nullptr ? slot->peek() : SlotWord();
    return word.is_backed() &&
           (context.fetched == nullptr ||
            context.fetched->find(slots().id(*slot), word, backing()->check_of(word)) == nullptr);
  });
}

}  // namespace uzram::device
