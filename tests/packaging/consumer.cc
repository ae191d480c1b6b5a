// A program that knows uzram by its installed headers and library alone: writes a device full of
// two kinds of pages, reads it back, discards it.
#include <uzram/device.h>

#include <cstdio>
#include <vector>

namespace {

bool holds(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "consumer: %s\n", what);
  return condition;
}

bool round_trip(uzram::Device& device) {
  std::vector<std::byte> written(device.size_bytes());
  for (std::size_t i = 0; i < written.size(); ++i) {
    const bool varied = i / uzram::kPageBytes % 2 == 0;
    written[i] = static_cast<std::byte>(varied ? i * i >> 5 : 7);
  }
  std::vector<std::byte> read(written.size());
  return holds(device.write(0, written) == uzram::Status::ok, "write failed") &&
         holds(device.read(0, read) == uzram::Status::ok, "read failed") &&
         holds(read == written, "read differs from what was written") &&
         holds(device.stats().orig_data_size == written.size(), "pages are missing") &&
         holds(device.discard(0, written.size()) == uzram::Status::ok, "discard failed") &&
         holds(device.stats().orig_data_size == 0, "pages are left");
}

}  // namespace

int main() {
  for (const uzram::CodecInfo& codec : uzram::codecs()) {
    uzram::DeviceOptions options;
    options.size_bytes = 1 << 20;
    options.codec = codec.name;
    const auto device = uzram::create_device(options);
    if (!holds(device.has_value(), device ? "" : device.error().message.c_str())) return 1;
    if (!round_trip(**device)) return 1;
    std::printf("%s: ok\n", codec.name.c_str());
  }
  return 0;
}
