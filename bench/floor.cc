#include "bench/floor.h"

#include <algorithm>
#include <cstring>

namespace uzram::bench {
namespace {

struct FloorCodec {
  const codec::Codec* codec = nullptr;  // null: plain copies
  codec::StreamOptions options = {};
};

Result<FloorCodec> choose_codec(const DeviceOptions& device) {
  if (device.type == DeviceType::ram) return FloorCodec{};
  const codec::Codec* found = codec::find(device.codec);
  if (found == nullptr) return fail(Status::not_found, "codec '" + device.codec + "': not built");
  auto options = codec::check_params(*found, device.params);
  if (!options) return tl::unexpected(options.error());
  return FloorCodec{found, std::move(*options)};
}

std::uint64_t pages_of(const DeviceOptions& device) noexcept {
  return (device.size_bytes + kPageBytes - 1) / kPageBytes;
}

}  // namespace

Result<PackedSizes> measure_packed(const DeviceOptions& device, const SourcePages& pages) {
  const Result<FloorCodec> choice = choose_codec(device);
  if (!choice) return tl::unexpected(choice.error());
  if (choice->codec == nullptr) return PackedSizes{};
  Result<std::unique_ptr<codec::Stream>> stream = choice->codec->make_stream(choice->options);
  if (!stream) return tl::unexpected(stream.error());
  const auto room = std::make_unique<std::byte[]>(codec::kPackRoomBytes);
  std::size_t sum = 0;
  std::size_t max = 0;
  for (std::uint64_t i = 0; i < SourcePages::kPages; ++i) {
    std::size_t size =
        (*stream)->pack(pages.page(i), codec::PackRoom(room.get(), codec::kPackRoomBytes));
    if (size == 0) return fail(Status::io_error, "codec '" + device.codec + "': can't pack a page");
    size = std::min<std::size_t>(size, kPageBytes);
    sum += size;
    max = std::max(max, size);
  }
  return PackedSizes{static_cast<double>(sum) / SourcePages::kPages, max};
}

std::size_t Floor::stride_for(const DeviceOptions& device, const PackedSizes& sizes) noexcept {
  if (device.type == DeviceType::ram) return kPageBytes;
  constexpr std::size_t kLine = 64;
  return (sizeof(Size) + sizes.max + kLine - 1) / kLine * kLine;
}

std::uint64_t Floor::bytes_for(const DeviceOptions& device, const PackedSizes& sizes) noexcept {
  return pages_of(device) * stride_for(device, sizes);
}

Result<Floor> Floor::make(const DeviceOptions& device, const PackedSizes& sizes) {
  const Result<FloorCodec> choice = choose_codec(device);
  if (!choice) return tl::unexpected(choice.error());
  Result<base::MemoryMap> map = base::MemoryMap::reserve(bytes_for(device, sizes));
  if (!map) return tl::unexpected(map.error());
  map->advise_huge(0, map->size(), true);
  Floor floor;
  floor.map_ = std::move(*map);
  floor.stride_ = stride_for(device, sizes);
  floor.codec_ = choice->codec;
  floor.stream_options_ = choice->options;
  return floor;
}

Result<Floor::Lane> Floor::make_lane() {
  Lane lane;
  lane.floor_ = this;
  if (codec_ == nullptr) return lane;
  Result<std::unique_ptr<codec::Stream>> stream = codec_->make_stream(stream_options_);
  if (!stream) return tl::unexpected(stream.error());
  lane.stream_ = std::move(*stream);
  lane.scratch_ = std::make_unique<std::byte[]>(codec::kPackRoomBytes);
  return lane;
}

bool Floor::Lane::write_page(std::uint64_t number, codec::PlainPage page) noexcept {
  std::byte* const place = floor_->map_.data() + number * floor_->stride_;
  if (!stream_) {
    std::memcpy(place, page.data(), page.size());
    return true;
  }
  std::size_t size = stream_->pack(page, codec::PackRoom(scratch_.get(), codec::kPackRoomBytes));
  const std::byte* packed = scratch_.get();
  if (size >= kPageBytes) {
    size = kPageBytes;
    packed = page.data();
  }
  if (size == 0 || sizeof(Size) + size > floor_->stride_) return false;
  const Size stored = static_cast<Size>(size);
  std::memcpy(place, &stored, sizeof stored);
  std::memcpy(place + sizeof stored, packed, size);
  return true;
}

bool Floor::Lane::read_page(std::uint64_t number, codec::PlainPageOut page) noexcept {
  const std::byte* const place = floor_->map_.data() + number * floor_->stride_;
  if (!stream_) {
    std::memcpy(page.data(), place, page.size());
    return true;
  }
  Size size = 0;
  std::memcpy(&size, place, sizeof size);
  if (size == kPageBytes) {
    std::memcpy(page.data(), place + sizeof size, page.size());
    return true;
  }
  return stream_->unpack({place + sizeof size, size}, page);
}

void Floor::Lane::prefetch(std::span<const Request> window) const noexcept {
  // The first lines of each; the processor's own prefetcher takes over from there.
  constexpr std::size_t kLines = 4;
  for (const Request& request : window) {
    if (request.op != Op::read) continue;
    const std::byte* const place =
        floor_->map_.data() + request.offset / kPageBytes * floor_->stride_;
    for (std::size_t line = 0; line < kLines; ++line) __builtin_prefetch(place + line * 64);
  }
}

void Floor::Lane::submit(std::span<Request> batch) noexcept {
  constexpr std::size_t kWindow = 16;
  while (!batch.empty()) {
    const std::span<Request> window = batch.first(std::min(kWindow, batch.size()));
    if (window.size() > 1) prefetch(window);
    run(window);
    batch = batch.subspan(window.size());
  }
}

void Floor::Lane::run(std::span<Request> window) noexcept {
  for (Request& request : window) {
    bool good = true;
    for (std::uint64_t done = 0; good && done < request.length; done += kPageBytes) {
      const std::uint64_t number = (request.offset + done) / kPageBytes;
      std::byte* const page = request.data + done;
      good = request.op == Op::write ? write_page(number, codec::PlainPage(page, kPageBytes))
                                     : read_page(number, codec::PlainPageOut(page, kPageBytes));
    }
    request.status = good ? Status::ok : Status::io_error;
  }
}

}  // namespace uzram::bench
