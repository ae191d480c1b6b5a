// The floor: what the codec alone costs.
//
// What: the least that a compressed device could do. Pages are packed into scratch and copied to
//   their place in a flat array, and unpacked from there into the caller's buffer, prefetched where
//   a batch tells what comes next: no table, no allocation, no locks, no counters. For a `ram`
//   device the codec is a plain copy.
// Units: bytes; requests are reads and writes of whole pages.
// Ownership: owns the array; a lane refers to its floor and owns its codec stream.
// Threading: one lane per thread; lanes must not touch the same page at the same time.
// Errors: a request gets io_error where the codec fails.
#ifndef UZRAM_BENCH_FLOOR_H_
#define UZRAM_BENCH_FLOOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_map.h"
#include "bench/options.h"
#include "bench/source_pages.h"
#include "codec/codec.h"

namespace uzram::bench {

// Packed sizes of the source pages; a page that doesn't shrink counts kPageBytes, as it is stored.
struct PackedSizes {
  double average = kPageBytes;
  std::size_t max = kPageBytes;
};
Result<PackedSizes> measure_packed(const DeviceOptions& device, const SourcePages& pages);

class Floor {
 public:
  class Lane {
   public:
    void submit(std::span<Request> batch) noexcept;

   private:
    friend class Floor;
    bool write_page(std::uint64_t number, codec::PlainPage page) noexcept;
    void prefetch(std::span<const Request> window) const noexcept;
    void run(std::span<Request> window) noexcept;
    bool read_page(std::uint64_t number, codec::PlainPageOut page) noexcept;

    Floor* floor_ = nullptr;
    std::unique_ptr<codec::Stream> stream_;  // null: plain copies
    std::unique_ptr<std::byte[]> scratch_;
  };

  // Address space for every page of the device, in huge pages where the system grants them.
  static Result<Floor> make(const DeviceOptions& device, const PackedSizes& sizes);
  Result<Lane> make_lane();
  // Forgets all pages and gives their memory back.
  void clear() noexcept { map_.release(0, map_.size()); }

  // Memory that a floor for this device takes.
  static std::uint64_t bytes_for(const DeviceOptions& device, const PackedSizes& sizes) noexcept;

 private:
  // The packed size stands before the packed bytes, in the same cache line.
  using Size = std::uint16_t;
  static std::size_t stride_for(const DeviceOptions& device, const PackedSizes& sizes) noexcept;

  base::MemoryMap map_;
  std::size_t stride_ = 0;
  const codec::Codec* codec_ = nullptr;
  codec::StreamOptions stream_options_;
};

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_FLOOR_H_
