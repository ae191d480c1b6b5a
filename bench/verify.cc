#include "bench/verify.h"

#include <algorithm>
#include <cstring>

#include "bench/crc32c.h"

namespace uzram::bench {
namespace {

// Opens every record; `crc` covers the rest of the record, the fields before it included.
struct Stamp {
  std::uint64_t offset;
  std::uint32_t generation;
  std::uint32_t crc;
};
static_assert(sizeof(Stamp) == 16 && sizeof(Stamp) <= kRecordMin);

std::uint32_t crc_of(std::span<const std::byte> record) noexcept {
  return crc32c(record.subspan(sizeof(Stamp)), crc32c(record.first(offsetof(Stamp, crc))));
}

Error mismatch(std::uint64_t offset, const std::string& expected, const std::string& found) {
  return {Status::io_error, "verify: offset " + std::to_string(offset) + ": expected " + expected +
                                ", found " + found};
}

std::string hex(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

}  // namespace

void stamp_record(std::span<std::byte> record, std::uint64_t offset,
                  std::uint32_t generation) noexcept {
  Stamp stamp{offset, generation, 0};
  std::memcpy(record.data(), &stamp, sizeof stamp);
  stamp.crc = crc_of(record);
  std::memcpy(record.data(), &stamp, sizeof stamp);
}

std::optional<Error> check_record(std::span<const std::byte> record, std::uint64_t offset,
                                  std::uint32_t generation) {
  if (generation == 0) {
    const auto other = std::find_if(record.begin(), record.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (other == record.end()) return std::nullopt;
    return mismatch(offset, "zeroes, it was never written",
                    "other bytes from " + std::to_string(other - record.begin()) + " on");
  }
  Stamp stamp{};
  std::memcpy(&stamp, record.data(), sizeof stamp);
  const std::uint32_t crc = crc_of(record);
  if (crc != stamp.crc) {
    return mismatch(offset, "crc32c " + hex(stamp.crc), "crc32c " + hex(crc));
  }
  if (stamp.offset != offset) {
    return mismatch(offset, "its own record", "that of offset " + std::to_string(stamp.offset));
  }
  if (stamp.generation != generation) {
    return mismatch(offset, "generation " + std::to_string(generation),
                    "generation " + std::to_string(stamp.generation));
  }
  return std::nullopt;
}

Verifier::Verifier(const Plan& plan, unsigned thread, Device& device)
    : plan_(plan),
      thread_(thread),
      device_(device),
      requests_(plan.options.batch),
      buffers_(plan.options.batch * plan.options.record_bytes),
      generations_(order(0).count()),
      position_(mix(plan.seed, thread) % SourcePages::kPages * kPageBytes) {}

void Verifier::run(Tally& tally) {
  const std::uint64_t deadline = plan_.duration_ns > 0 ? now_ns() + plan_.duration_ns : 0;
  do {
    ++generation_;
    if (!write_pass(deadline, tally) || !read_pass(tally)) return;
  } while (deadline > 0 && now_ns() < deadline);
}

bool Verifier::write_pass(std::uint64_t deadline, Tally& tally) {
  const Order visit = order(2 * std::uint64_t{generation_});
  for (std::uint64_t done = 0; done < visit.count();) {
    const std::uint64_t n = std::min<std::uint64_t>(requests_.size(), visit.count() - done);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t record = visit(done + i);
      requests_[i] = request(Op::write, i, record);
      std::memcpy(buffer(i).data(), plan_.pages.at(position_), buffer(i).size());
      position_ = SourcePages::next(position_, buffer(i).size());
      stamp_record(buffer(i), requests_[i].offset, generation_);
      generations_[record / plan_.options.threads] = generation_;
    }
    if (!submit({requests_.data(), n}, tally)) return false;
    done += n;
    if (deadline > 0 && now_ns() >= deadline) break;
  }
  return true;
}

bool Verifier::read_pass(Tally& tally) {
  const Order visit = order(2 * std::uint64_t{generation_} + 1);
  for (std::uint64_t done = 0; done < visit.count();) {
    const std::uint64_t n = std::min<std::uint64_t>(requests_.size(), visit.count() - done);
    for (std::uint64_t i = 0; i < n; ++i) requests_[i] = request(Op::read, i, visit(done + i));
    if (!submit({requests_.data(), n}, tally)) return false;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t offset = requests_[i].offset;
      const std::uint64_t record = offset / plan_.options.record_bytes;
      tally.error = check_record(buffer(i), offset, generations_[record / plan_.options.threads]);
      if (tally.error) return false;
    }
    done += n;
  }
  return true;
}

bool Verifier::submit(std::span<Request> batch, Tally& tally) {
  const std::uint64_t before = now_ns();
  device_.submit(batch);
  tally.latency.record(now_ns() - before, batch.size());
  for (const Request& request : batch) {
    if (request.status == Status::ok) continue;
    tally.error = request_error(plan_.traits, request);
    return false;
  }
  tally.requests += batch.size();
  tally.bytes += batch.size() * plan_.options.record_bytes;
  return true;
}

Request Verifier::request(Op op, std::uint64_t slot, std::uint64_t record) noexcept {
  const std::uint64_t length = plan_.options.record_bytes;
  return {.op = op, .offset = record * length, .length = length, .data = buffer(slot).data()};
}

Order Verifier::order(std::uint64_t pass) const noexcept {
  return {plan_.options.records(), thread_, plan_.options.threads, true,
          mix(mix(plan_.seed, pass), thread_)};
}

std::span<std::byte> Verifier::buffer(std::uint64_t slot) noexcept {
  return {buffers_.data() + slot * plan_.options.record_bytes, plan_.options.record_bytes};
}

}  // namespace uzram::bench
