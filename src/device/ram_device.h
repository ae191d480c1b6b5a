// The plain device: pages kept as they are.
//
// What: the kernel's brd in user space. A page takes memory when it is first written; overwriting
// it happens
//   in place. Units, ownership, threading: as PagedDevice. Errors: as Device.
#ifndef UZRAM_DEVICE_RAM_DEVICE_H_
#define UZRAM_DEVICE_RAM_DEVICE_H_

#include "device/paged_device.h"

namespace uzram::device {

class RamDevice final : public PagedDevice {
 public:
  static Result<std::unique_ptr<RamDevice>> create(const DeviceOptions& options);
  ~RamDevice() override;

 private:
  RamDevice(const DeviceOptions& options, std::unique_ptr<Parts> parts);

  Status read_page(Context& context, Slot& slot, PageOut out) noexcept override;
  Status write_part(Context& context, Slot& slot, std::size_t at,
                    std::span<const std::byte> in) noexcept override;
  Status zero_part(Context& context, Slot& slot, std::size_t at,
                   std::size_t length) noexcept override;
  Status write_pages(Context& context, PageIndex first, std::size_t count,
                     const std::byte* in) noexcept override;

  bool store_new(Context& context, const Slot& slot, std::size_t at, std::span<const std::byte> in,
                 SlotWord& word) noexcept;
  bool reserve_pages(Context& context, PageIndex first, std::size_t count) noexcept;
};

}  // namespace uzram::device

#endif  // UZRAM_DEVICE_RAM_DEVICE_H_
