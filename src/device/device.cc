#include "uzram/device.h"

namespace uzram {
namespace {

Status submit_one(Device& device, Request request) noexcept {
  device.submit({&request, 1});
  return request.status;
}

}  // namespace

Status Device::read(std::uint64_t offset, std::span<std::byte> out) noexcept {
  return submit_one(*this,
                    {.op = Op::read, .offset = offset, .length = out.size(), .data = out.data()});
}

Status Device::write(std::uint64_t offset, std::span<const std::byte> in) noexcept {
  // A write request's buffer is never changed, which the one pointer of Request can't say.
  return submit_one(*this, {.op = Op::write,
                            .offset = offset,
                            .length = in.size(),
                            .data = const_cast<std::byte*>(in.data())});
}

Status Device::discard(std::uint64_t offset, std::uint64_t length) noexcept {
  return submit_one(*this, {.op = Op::discard, .offset = offset, .length = length});
}

Status Device::write_zeroes(std::uint64_t offset, std::uint64_t length, bool no_hole) noexcept {
  return submit_one(*this, {.op = Op::write_zeroes,
                            .flags = static_cast<std::uint8_t>(no_hole ? kNoHole : 0),
                            .offset = offset,
                            .length = length});
}

Status Device::flush() noexcept {
  return submit_one(*this, {.op = Op::flush});
}

Result<void> Device::resize(std::uint64_t) {
  return fail(Status::not_supported, "size: fixed for this kind of device");
}

Result<std::uint64_t> Device::mark_idle(std::uint64_t) {
  return fail(Status::not_supported, "idle marking: a zram device has it");
}

Result<std::uint64_t> Device::recompress(const RecompressOptions&) {
  return fail(Status::not_supported, "recompression: a zram device has it");
}

Result<std::uint64_t> Device::write_back(const WriteBackOptions&) {
  return fail(Status::not_supported, "write-back: a zram device has it");
}

Status Device::change_write_back_limits(const WriteBackLimitsChange&) noexcept {
  return Status::not_supported;
}

WriteBackLimits Device::write_back_limits() const noexcept {
  return options().write_back;
}

std::size_t Device::page_states(std::uint64_t, std::span<PageState>) const {
  return 0;
}

}  // namespace uzram
