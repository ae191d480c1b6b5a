// The compressed device.
//
// What: pages are packed by a codec, kept raw where that saves too little, or kept as a pattern
// where one
//   word repeats. `write_page` and `read_page` in zram_device.cc are the data path, top-down.
// Units, ownership, threading: as PagedDevice. Errors: as Device.
#ifndef UZRAM_DEVICE_ZRAM_DEVICE_H_
#define UZRAM_DEVICE_ZRAM_DEVICE_H_

#include <optional>

#include "codec/codec.h"
#include "device/paged_device.h"
#include "device/write_stage.h"

namespace uzram::device {

class ZramDevice final : public PagedDevice {
 public:
  static Result<std::unique_ptr<ZramDevice>> create(const DeviceOptions& options);
  ~ZramDevice() override;

  Result<std::uint64_t> mark_idle(std::uint64_t age_seconds) override;
  Result<std::uint64_t> recompress(const RecompressOptions& options) override;
  Result<std::uint64_t> write_back(const WriteBackOptions& options) override;
  Status change_write_back_limits(const WriteBackLimitsChange& change) noexcept override;
  WriteBackLimits write_back_limits() const noexcept override;

 private:
  // What a page is to be stored as; `empty` only where a discard left nothing. `bytes` lies in the
  // context's packed room, or is the page itself.
  struct Packing {
    Kind kind = Kind::raw;
    std::uint64_t pattern = 0;  // fill: the word; fill_wide: the index of the fill word it took
    std::span<const std::byte> bytes;
    unsigned codec = 0;  // its priority
  };
  struct ChosenCodec {
    const codec::Codec* codec = nullptr;  // none: no codec of that priority
    codec::StreamOptions options = {};
  };
  using Codecs = std::array<ChosenCodec, 1 + kRecompressPriorities>;

  ZramDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts, Codecs codecs);
  static Result<ChosenCodec> choose(const CodecChoice& choice);
  // nullptr: the system has no memory for it.
  codec::Stream* stream(Context& context, unsigned priority) const noexcept;

  Status read_page(Context& context, Slot& slot, PageOut out) noexcept override;
  Status write_page(Context& context, Slot& slot, PageIn in) noexcept;
  Status write_part(Context& context, Slot& slot, std::size_t at,
                    std::span<const std::byte> in) noexcept override;
  Status zero_part(Context& context, Slot& slot, std::size_t at,
                   std::size_t length) noexcept override;
  Status write_pages(Context& context, PageIndex first, std::size_t count,
                     const std::byte* in) noexcept override;

  Status load(Context& context, const Slot& slot, SlotWord word, PageOut out) noexcept;
  // From what was fetched for the request; would_block where that is not it.
  Status load_backed(Context& context, const Slot& slot, SlotWord word, PageOut out) noexcept;
  Status unpack(Context& context, unsigned codec, std::span<const std::byte> packed,
                PageOut out) noexcept;
  Packing pack(Context& context, PageIn in) noexcept;
  std::optional<SlotWord> make_word(Context& context, const Slot& slot,
                                    const Packing& packing) noexcept;
  void fill_object(SlotWord word, const Slot& slot, const Packing& packing) noexcept;
  // What a packed or raw page takes of its span.
  std::uint32_t stride_of(SlotWord word) const noexcept {
    return pool::size_class(pool().class_of(word.object())).stride;
  }
  bool fits_over(SlotWord old, const Packing& packing) const noexcept;
  void store_over(Context& context, const Slot& slot, SlotWord old, PageIn in,
                  const Packing& packing) noexcept;
  bool write_over(Context& context, Slot& slot, PageIn in, const Packing& packing) noexcept;
  template <typename Change>
  Status change_part(Context& context, Slot& slot, Change change) noexcept;
  bool prepare(Context& context, Slot& slot, PageIn in, Prepared& prepared) noexcept;
  Status write_all_or_none(Context& context, PageIndex first, std::size_t count,
                           const std::byte* in) noexcept;

  // The pages of a pass's round, by what they take now: rounds from the largest down come near to
  // the order that frees most first, and need neither a list of pages nor to sort it.
  struct Round {
    std::uint32_t stride_min = 0, stride_end = ~std::uint32_t{0};
    bool has(std::uint32_t stride) const { return stride >= stride_min && stride < stride_end; }
  };
  static std::span<const Round> rounds_of(PageClass pages) noexcept;
  static bool is_of(PageClass pages, SlotWord word) noexcept;

  // recompress.cc
  struct Recompression;
  bool recompress_page(Context& context, Slot& slot, const Recompression& pass) noexcept;
  bool pack_smaller(Context& context, const Recompression& pass, ObjectHeader old,
                    std::uint32_t old_stride, Packing& packing) noexcept;
  void give_up(Slot& slot, const Recompression& pass) noexcept;

  // write_back.cc
  struct WriteBackPass;
  void write_back_range(WriteBackPass& pass, PageRange range) noexcept;
  bool stage(Context& context, Slot& slot, WriteBackPass& pass) noexcept;
  Status load_to_stage(Context& context, const Slot& slot, SlotWord word,
                       const WriteStage::Place& place) noexcept;
  void flush_stage(WriteBackPass& pass) noexcept;
  void publish_staged(WriteBackPass& pass) noexcept;
  bool publish_backed(Context& context, const WriteStage::Page& page, Status written) noexcept;

  const Codecs codecs_;
  WriteBudget budget_;
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_ZRAM_DEVICE_H_
