#include "device/ram_device.h"
#include "device/zram_device.h"

namespace uzram {

Result<std::unique_ptr<Device>> create_device(const DeviceOptions& options) {
  if (auto fits = device::check_size(options.size_bytes); !fits) {
    return tl::unexpected(fits.error());
  }
  if (options.backing != nullptr && options.type == DeviceType::ram) {
    return fail(Status::invalid_argument, "backing store: only a zram device can have one");
  }
  if (options.write_back.batch_size == 0) {
    return fail(Status::invalid_argument, "write-back: a batch of 0");
  }
  try {
    if (options.type == DeviceType::ram) {
      auto device = device::RamDevice::create(options);
      if (!device) return tl::unexpected(device.error());
      return std::move(*device);
    }
    auto device = device::ZramDevice::create(options);
    if (!device) return tl::unexpected(device.error());
    return std::move(*device);
  } catch (const std::bad_alloc&) {
    return fail(Status::no_memory, "device: out of memory");
  } catch (const std::system_error& error) {
    return fail(Status::no_memory, std::string("device: ") + error.what());
  }
}

}  // namespace uzram
