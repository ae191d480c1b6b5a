// Another size while requests run.
//
// A leased context fixes the size: it is changed with all of them held, so that no request checks
// its range against one size and stores within another.
#include <algorithm>

#include "device/paged_device.h"

namespace uzram::device {

struct PagedDevice::Obstacle {
  Status status = Status::ok;
  PageIndex page = 0;
};

Result<void> PagedDevice::resize(std::uint64_t size_bytes) {
  if (auto fits = check_size(size_bytes); !fits) return fits;
  const std::string what = "size " + std::to_string(size_bytes);
  const std::uint64_t max = parts_->image.layout().device_bytes_max();
  if (size_bytes > max) {
    return fail(Status::no_space, what + ": more than " + std::to_string(max) +
                                      ", which address space was reserved for");
  }
  Obstacle obstacle;
  {
    // Most refusals cost no request its turn; and afterwards there is a context.
    const auto context = contexts_.lease();
    if (!context) return fail(Status::no_memory, what + ": no memory");
    obstacle = find_obstacle(*context, size_bytes);
  }
  if (obstacle.status == Status::ok) {
    Context* any = nullptr;
    contexts_.exclude_all([&any](Context& context) { any = &context; },
                          [&] { obstacle = resize_alone(*any, size_bytes); });
    maintenance_.touch();
  }
  if (obstacle.status == Status::ok) return {};
  const std::string page = what + ": page " + std::to_string(obstacle.page);
  if (obstacle.status != Status::busy) return fail(obstacle.status, page + " can't be read");
  return fail(Status::busy, page + " holds data, discard it first");
}

// The first page of which more than zeroes would be cut.
PagedDevice::Obstacle PagedDevice::find_obstacle(Context& context,
                                                 std::uint64_t size_bytes) noexcept {
  const PageIndex first = size_bytes / kPageBytes, old_end = end_page();
  for (PageIndex page = first; page < old_end; ++page) {
    Slot* const slot = slots().find(page);
    if (slot == nullptr) {
      page = slots().next_present(page) - 1;
      continue;
    }
    const Status status = check_zero(context, *slot, page == first ? size_bytes % kPageBytes : 0);
    if (status != Status::ok) return {status, page};
  }
  return {};
}

// Busy where the page holds more than zeroes from `at` on.
Status PagedDevice::check_zero(Context& context, Slot& slot, std::size_t at) noexcept {
  const SlotWord word = slot.peek();
  if (reads_zero(word)) return Status::ok;
  // Of the others only a raw page may be one of zeroes. One in the backing store can't be looked at
  // while all requests stand still.
  if ((at == 0 && word.kind() != Kind::raw) || word.is_backed()) return Status::busy;
  const Status status = read_page(context, slot, context.page);
  if (status != Status::ok) return status;
  const bool zero =
      std::all_of(context.page.begin() + static_cast<std::ptrdiff_t>(at), context.page.end(),
                  [](std::byte byte) { return byte == std::byte{0}; });
  return zero ? Status::ok : Status::busy;
}

// With all contexts held. What a short last page has behind the device's end is zero at all times,
// so that nothing need be done to a page that becomes longer.
PagedDevice::Obstacle PagedDevice::resize_alone(Context& context,
                                                std::uint64_t size_bytes) noexcept {
  const Obstacle obstacle = find_obstacle(context, size_bytes);
  if (obstacle.status != Status::ok) return obstacle;
  // Pages that are kept and zero go, so that a later, larger device begins there with none.
  static_cast<void>(
      zero_pages(context, (size_bytes - 1) / kPageBytes + 1, end_page(), SlotWord(), false));
  parts_->image.set_device_bytes(size_bytes);
  return {};
}

}  // namespace uzram::device
