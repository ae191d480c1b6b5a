// Passes that pack stored pages anew, and the marking of idle ones.
#include "device/zram_device.h"

namespace uzram::device {

// As far as the word tells.
bool ZramDevice::is_of(PageClass pages, SlotWord word) noexcept {
  const bool idle = pages == PageClass::idle || pages == PageClass::huge_idle;
  const bool huge = pages == PageClass::huge || pages == PageClass::huge_idle;
  return word.has_object() && (!idle || word.idle()) && (!huge || word.kind() == Kind::raw);
}

std::span<const ZramDevice::Round> ZramDevice::rounds_of(PageClass pages) noexcept {
  static constexpr std::uint32_t kRaw = kPageBytes;
  static constexpr Round kRounds[] = {{kRaw}, {2731, kRaw}, {1366, 2731}, {0, 1366}};
  const std::span<const Round> all(kRounds);
  const bool only_huge = pages == PageClass::huge || pages == PageClass::huge_idle;
  return only_huge ? all.first(1) : all;
}

struct ZramDevice::Recompression {
  RecompressOptions options;
  Round round;
  unsigned last_priority = 0;  // that may be tried
};

Result<std::uint64_t> ZramDevice::mark_idle(std::uint64_t age_seconds) {
  std::uint64_t marked = 0;
  const std::uint64_t now = age_clock().now();
  const Status status = for_each_slot([&](Context&, Slot& slot) {
    const SlotWord word = slot.peek();
    if (word.has_object() && !word.idle() && Age::of(word.stamp(), now) >= age_seconds &&
        slot.try_set_aside(word, word.as_idle())) {
      ++marked;
    }
    return true;
  });
  if (status != Status::ok) return fail(status, "idle: no memory");
  return marked;
}

Result<std::uint64_t> ZramDevice::recompress(const RecompressOptions& options) {
  Recompression pass{options, {}, 0};
  for (unsigned i = 1; i < codecs_.size(); ++i) {
    if (codecs_[i].codec != nullptr) pass.last_priority = i;
  }
  if (pass.last_priority == 0) {
    return fail(Status::not_supported, "recompression: the device has no second codec");
  }
  if (options.priority >= codecs_.size() ||
      (options.priority != 0 && codecs_[options.priority].codec == nullptr)) {
    return fail(Status::invalid_argument,
                "priority " + std::to_string(options.priority) + ": no codec of that priority");
  }
  if (options.pages == PageClass::incompressible) {
    return fail(Status::invalid_argument,
                "recompression: incompressible pages are what it gave up");
  }
  if (options.threshold_bytes > pool::kPackedBytesMax) {
    return fail(Status::invalid_argument, "threshold " + std::to_string(options.threshold_bytes) +
                                              ": above " + std::to_string(pool::kPackedBytesMax) +
                                              ", the largest that is kept packed");
  }
  if (options.priority != 0) pass.last_priority = options.priority;
  if (!begin_pass()) return fail(Status::would_block, "recompression: another pass is under way");
  std::uint64_t done = 0;
  // A page that is packed anew keeps its mark, so that no later round takes it once more.
  Status status = for_each_slot([](Context&, Slot& slot) {
    const SlotWord word = slot.peek();
    if (word.marked()) static_cast<void>(slot.try_set_aside(word, word.unmarked()));
    return true;
  });
  for (const Round& round : rounds_of(options.pages)) {
    if (status != Status::ok || done == options.pages_max) break;
    pass.round = round;
    status = for_each_slot([&](Context& context, Slot& slot) {
      if (done < options.pages_max && recompress_page(context, slot, pass)) ++done;
      return done < options.pages_max;
    });
  }
  end_pass();
  if (status != Status::ok) return fail(status, "recompression: no memory");
  return done;
}

// Packs with nothing locked, from a copy. Whoever uses the page meanwhile takes the mark off it,
// and the result is dropped.
bool ZramDevice::recompress_page(Context& context, Slot& slot, const Recompression& pass) noexcept {
  const auto wanted = [&pass](SlotWord word) {
    return is_of(pass.options.pages, word) && !word.marked();
  };
  if (!wanted(slot.peek())) return false;
  const SlotWord word = slot.lock();
  const std::uint32_t stride = word.has_object() ? stride_of(word) : 0;
  if (!wanted(word) || !pass.round.has(stride)) {
    slot.unlock(word);
    return false;
  }
  const ObjectHeader header(header_of(word).load(std::memory_order_relaxed));
  if (header.incompressible() || header.codec() >= pass.last_priority ||
      header.bytes() < pass.options.threshold_bytes ||
      load(context, slot, word, context.page) != Status::ok) {
    slot.unlock(word);
    return false;
  }
  slot.unlock(word.as_marked());

  Packing packing;
  if (!pack_smaller(context, pass, header, stride, packing)) {
    give_up(slot, pass);
    return false;
  }
  const std::optional<SlotWord> smaller = make_word(context, slot, packing);
  const SlotWord now = slot.lock();
  if (!smaller || !now.marked()) {
    slot.unlock(now.unmarked());
    if (smaller) release(context, *smaller);
    return false;
  }
  count_in(context, *smaller);
  slot.unlock(smaller->with_aside_of(now));
  retire(context, now);
  return true;
}

// With the first codec, in the order of priority, whose result lands in a smaller class.
bool ZramDevice::pack_smaller(Context& context, const Recompression& pass, ObjectHeader old,
                              std::uint32_t old_stride, Packing& packing) noexcept {
  const unsigned first = pass.options.priority != 0 ? pass.options.priority : old.codec() + 1;
  for (unsigned i = first; i <= pass.last_priority; ++i) {
    codec::Stream* const packer = codecs_[i].codec != nullptr ? stream(context, i) : nullptr;
    if (packer == nullptr) continue;
    const std::size_t size = packer->pack(context.page, context.packed);
    const std::uint32_t threshold = pass.options.threshold_bytes;
    if (size == 0 || size > pool::kPackedBytesMax || (threshold != 0 && size >= threshold) ||
        pool::size_class(pool::class_of_packed(static_cast<std::uint32_t>(size))).stride >=
            old_stride) {
      continue;
    }
    packing = {Kind::packed, 0, {context.packed.data(), size}, i};
    return true;
  }
  return false;
}

// Once every codec has been tried without a limit on the result, no pass need try again.
void ZramDevice::give_up(Slot& slot, const Recompression& pass) noexcept {
  const SlotWord word = slot.lock();
  if (word.marked() && pass.options.priority == 0 && pass.options.threshold_bytes == 0) {
    auto& header = header_of(word);
    header.store(ObjectHeader(header.load(std::memory_order_relaxed)).as_incompressible().bits(),
                 std::memory_order_relaxed);
  }
  slot.unlock(word.unmarked());
}

}  // namespace uzram::device
