// What a benchmark run is asked to do.
//
// What: the profiles, the options that they share, and the rules that options obey.
// Units: bytes and seconds as named. Ownership: values. Threading: none of its own.
// Errors: invalid_argument, one line naming the value and the rule.
#ifndef UZRAM_BENCH_OPTIONS_H_
#define UZRAM_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "uzram/device.h"
#include "uzram/result.h"

namespace uzram::bench {

enum class Profile : std::uint8_t {
  seq_write,
  rand_write,
  seq_read,
  rand_read,
  mixed_seq,
  mixed_rand,
  verify,
};

// How a profile loads the device.
struct ProfileTraits {
  std::string_view name;
  bool random;
  unsigned read_percent;  // of the requests; the rest are writes
  bool empty;             // starts on an empty device instead of a filled one
  bool verify;            // stamps what it writes, reads back and checks
};
const ProfileTraits& traits_of(Profile profile);
// A profile's name, or `all`.
Result<std::vector<Profile>> parse_profiles(std::string_view text);

enum class DataKind : std::uint8_t {
  half,    // pages that lz4 halves
  zero,    // same-filled pages
  random,  // incompressible pages
  file,    // pages of a file
};
struct Data {
  DataKind kind = DataKind::half;
  std::string path;  // of a file
};
// half, zero, random or file:PATH.
Result<Data> parse_data(std::string_view text);
std::string describe(const Data& data);

inline constexpr std::uint64_t kSizeMax = std::uint64_t{16} << 40;
inline constexpr std::uint64_t kRecordMin = 512;
inline constexpr std::uint64_t kRecordMax = std::uint64_t{4} << 20;
inline constexpr unsigned kThreadsMax = 256;
inline constexpr unsigned kBatchMax = 1024;
inline constexpr unsigned kSecondsMax = 86400;
// Read buffers of all threads together: threads x batch x record.
inline constexpr std::uint64_t kBuffersMax = std::uint64_t{1} << 30;

struct Options {
  Options() { device.size_bytes = std::uint64_t{1} << 30; }

  DeviceOptions device;
  unsigned threads = 1;
  unsigned batch = 1;                 // requests per Device::submit
  std::uint64_t record_bytes = 4096;  // per request
  unsigned seconds = 0;               // of measuring; 0: each record once
  std::uint64_t seed = 1;
  Data data;
  bool floor = false;  // measure the codec alone beside the device

  // Whole records only: a device of 10000 bytes has two records of 4096.
  std::uint64_t records() const noexcept { return device.size_bytes / record_bytes; }
};
// Checks what the parsers of single values can't see.
Result<void> check(const Options& options);

}  // namespace uzram::bench

#endif  // UZRAM_BENCH_OPTIONS_H_
