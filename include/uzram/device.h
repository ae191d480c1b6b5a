// Start here: a block device whose contents live in memory.
//
// What: `create_device` makes a `zram` device (pages compressed one by one) or a `ram` device
// (pages
//   kept as they are). Unwritten bytes read zero. Any byte range is served; a write smaller than a
//   page never loses another writer's acknowledged bytes in that page. Each 4 KiB page of a request
//   is read or written as a whole: no reader sees half of a page-wide write.
// Units: bytes. Sizes up to 2^63-1; tables and memory are taken when first needed.
// Ownership: the caller owns the device and ends all calls before it destroys it.
// Threading: every function may be called from any thread at any time, `reset` included.
// Errors: a failed write leaves each page of its range wholly old or wholly new, and the old data
// of
//   a failed page readable. Refused for its memory limit, it changed none of its whole pages; a
//   part of a page before them may be new.
#ifndef UZRAM_DEVICE_H_
#define UZRAM_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "uzram/backing.h"
#include "uzram/codec.h"
#include "uzram/passes.h"
#include "uzram/request.h"
#include "uzram/result.h"
#include "uzram/stats.h"

namespace uzram {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kDeviceBytesMax = (std::uint64_t{1} << 63) - 1;

enum class DeviceType : std::uint8_t { zram, ram };

struct CodecChoice {
  std::string name;
  CodecParams params = {};
};

struct DeviceOptions {
  DeviceType type = DeviceType::zram;
  std::uint64_t size_bytes = 0;       // 1 .. kDeviceBytesMax; to begin with
  std::string codec = "lz4";          // a name of `codecs()`; zram only
  CodecParams params = {};            // of that codec
  std::uint64_t mem_limit_bytes = 0;  // of pool memory; 0: none. May exceed the size
  bool read_only = false;
  // What recompression may use, by priority less 1; zram only.
  std::array<std::optional<CodecChoice>, kRecompressPriorities> recompress_codecs = {};
  // Where write-back moves pages; zram only. The device's alone until it is destroyed.
  std::shared_ptr<backing::Store> backing = nullptr;
  bool compressed_writeback = false;  // pages go there as they are packed, several to a block
  WriteBackLimits write_back = {};    // to begin with
};

// What a range of the device holds, for block status (NBD base:allocation).
struct Extent {
  std::uint64_t length = 0;  // bytes, never 0
  bool hole = false;         // nothing is stored
  bool zero = false;         // reads zero
  friend bool operator==(const Extent&, const Extent&) = default;
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Runs every request to completion in order on the calling thread and sets its status. Waits for
  // who holds the same page at that moment, for a reset, and for a seat among the 64 requests that
  // may run at the same time; without kNoWait, also for the backing store, holding none of these.
  virtual void submit(std::span<Request> batch) noexcept = 0;

  // Sugar over submit for one request.
  Status read(std::uint64_t offset, std::span<std::byte> out) noexcept;
  Status write(std::uint64_t offset, std::span<const std::byte> in) noexcept;
  Status discard(std::uint64_t offset, std::uint64_t length) noexcept;
  Status write_zeroes(std::uint64_t offset, std::uint64_t length, bool no_hole = false) noexcept;
  Status flush() noexcept;

  // Fills `out` with the runs that the range begins with: in order, neighbours different, the first
  // at `offset`. Returns how many were written; the range ends early when `out` is full or after a
  // bounded amount of work, so the lengths sum to at most `length`, and at least one run is given.
  // 0 when the range is empty or leaves the device, or `out` is empty.
  virtual std::size_t extents(std::uint64_t offset, std::uint64_t length,
                              std::span<Extent> out) const noexcept = 0;

  // Changes the size; what a larger device gains reads zero. Requests that are under way finish
  // first, later ones wait: each sees one size. Smaller: busy, and nothing has changed, where a
  // byte that would be cut is not zero, or lies in the backing store; the message names the first
  // such page, and whoever shrinks discards before. invalid_argument: 0 or above kDeviceBytesMax.
  // no_space: above what address space was reserved for, which is 16 TiB or 16 times the first
  // size, whichever is more; no more than the first size where the system did not grant that.
  // not_supported: this kind of device.
  virtual Result<void> resize(std::uint64_t size_bytes);

  // Drops all data, counters and the peak; size, codec and limit stay. Requests that are under way
  // finish first, later ones wait: it is the caller who decides whether the device is in use.
  virtual void reset() noexcept = 0;

  virtual Stats stats() const noexcept = 0;
  // Takes effect at once. Lowering it below what is used keeps all data and refuses growth.
  virtual void set_mem_limit(std::uint64_t bytes) noexcept = 0;
  virtual void reset_mem_used_max() noexcept = 0;
  // Moves objects out of sparse memory and gives it back; returns when nothing is left to gain.
  // The device does the same by itself, in the background.
  virtual void compact() noexcept = 0;

  // Marks pages that have not been used for `age_seconds` as idle, until they are read or written;
  // how many. Same-filled pages are passed over. not_supported on a ram device.
  virtual Result<std::uint64_t> mark_idle(std::uint64_t age_seconds);
  // Packs pages anew with the device's other codecs, largest first, and keeps what lands in a
  // smaller size class; how many. A page that is used meanwhile is passed over. Runs on the calling
  // thread for as long as it takes, beside all requests. would_block: another pass is under way.
  // not_supported: a ram device, or one without such codecs; invalid_argument: no codec of that
  // priority, a threshold above what is ever packed.
  virtual Result<std::uint64_t> recompress(const RecompressOptions& options);
  // Moves pages to the backing store, largest first; how many. A page that is used meanwhile, or
  // whose write fails, stays in memory. Runs on the calling thread for as long as it takes, beside
  // all requests. A failed write does not end it; its error is returned at the end. would_block:
  // another pass is under way. not_supported: a ram device. no_device: no backing store.
  // out_of_range: a range that ends before it begins or leaves the device; nothing is moved.
  // io_error: the budget is used up. no_space: the store is full.
  virtual Result<std::uint64_t> write_back(const WriteBackOptions& options);
  // From the next batch of a pass on; a device without a backing store keeps them, too.
  // invalid_argument: a batch of 0; not_supported: a ram device.
  virtual Status change_write_back_limits(const WriteBackLimitsChange& change) noexcept;
  virtual WriteBackLimits write_back_limits() const noexcept;
  // Fills `out` with the states of stored pages from `first_page` on; how many. Fewer than there is
  // room for only where no page is left.
  virtual std::size_t page_states(std::uint64_t first_page, std::span<PageState> out) const;

  // As it was made; the limit of now is in stats().
  virtual const DeviceOptions& options() const noexcept = 0;
  // Of now; it may be another when the next request comes.
  virtual std::uint64_t size_bytes() const noexcept { return options().size_bytes; }

 protected:
  Device() = default;
};

// Fails with invalid_argument (size 0 or above kDeviceBytesMax, unknown codec, parameters that the
// codec refuses; the message names the codecs or the rule; a backing store for a ram device, a
// batch of 0), not_supported (a dictionary where the codec takes none) or no_memory.
Result<std::unique_ptr<Device>> create_device(const DeviceOptions& options);

}  // namespace uzram

#endif  // UZRAM_DEVICE_H_
