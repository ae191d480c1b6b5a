#include "bench/options.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "codec/codec.h"

namespace uzram::bench {
namespace {

// In the order of Profile, which is the order in which `all` runs them.
constexpr std::array<ProfileTraits, 7> kProfiles = {{
    {.name = "seq-write", .random = false, .read_percent = 0, .empty = true, .verify = false},
    {.name = "rand-write", .random = true, .read_percent = 0, .empty = false, .verify = false},
    {.name = "seq-read", .random = false, .read_percent = 100, .empty = false, .verify = false},
    {.name = "rand-read", .random = true, .read_percent = 100, .empty = false, .verify = false},
    {.name = "mixed-seq", .random = false, .read_percent = 50, .empty = false, .verify = false},
    {.name = "mixed-rand", .random = true, .read_percent = 50, .empty = false, .verify = false},
    {.name = "verify", .random = true, .read_percent = 50, .empty = true, .verify = true},
}};

constexpr std::string_view kFilePrefix = "file:";

Result<void> check_range(std::string_view name, std::uint64_t value, std::uint64_t min,
                         std::uint64_t max) {
  if (value >= min && value <= max) return {};
  return fail(Status::invalid_argument, std::string(name) + " " + std::to_string(value) +
                                            ": outside of " + std::to_string(min) + " to " +
                                            std::to_string(max));
}

Result<void> check_codec(const DeviceOptions& device) {
  if (device.type != DeviceType::zram) return {};
  const codec::Codec* found = codec::find(device.codec);
  if (found == nullptr) {
    std::string names;
    for (const codec::Codec* known : codec::registry()) names += " " + known->info().name;
    return fail(Status::invalid_argument, "codec '" + device.codec + "': not one of" + names);
  }
  const auto params = codec::check_params(*found, device.params);
  if (!params) return tl::unexpected(params.error());
  return {};
}

}  // namespace

const ProfileTraits& traits_of(Profile profile) {
  return kProfiles[static_cast<std::size_t>(profile)];
}

Result<std::vector<Profile>> parse_profiles(std::string_view text) {
  std::vector<Profile> profiles;
  std::string names = "all";
  for (std::size_t i = 0; i < kProfiles.size(); ++i) {
    if (text == "all" || text == kProfiles[i].name) profiles.push_back(static_cast<Profile>(i));
    names += " " + std::string(kProfiles[i].name);
  }
  if (profiles.empty()) {
    return fail(Status::invalid_argument,
                "profile '" + std::string(text) + "': not one of " + names);
  }
  return profiles;
}

Result<Data> parse_data(std::string_view text) {
  if (text == "half") return Data{DataKind::half, {}};
  if (text == "zero") return Data{DataKind::zero, {}};
  if (text == "random") return Data{DataKind::random, {}};
  if (text.starts_with(kFilePrefix) && text.size() > kFilePrefix.size()) {
    return Data{DataKind::file, std::string(text.substr(kFilePrefix.size()))};
  }
  return fail(Status::invalid_argument,
              "data '" + std::string(text) + "': not one of half zero random file:PATH");
}

std::string describe(const Data& data) {
  switch (data.kind) {
    case DataKind::half:
      return "half";
    case DataKind::zero:
      return "zero";
    case DataKind::random:
      return "random";
    case DataKind::file:
      break;
  }
  return std::string(kFilePrefix) + data.path;
}

Result<void> check(const Options& options) {
  for (const Result<void>& range :
       {check_range("size", options.device.size_bytes, 1, kSizeMax),
        check_range("threads", options.threads, 1, kThreadsMax),
        check_range("batch", options.batch, 1, kBatchMax),
        check_range("record", options.record_bytes, kRecordMin, kRecordMax),
        check_range("seconds", options.seconds, 0, kSecondsMax), check_codec(options.device)}) {
    if (!range) return range;
  }
  if (options.records() < options.threads) {
    return fail(Status::invalid_argument,
                "size " + std::to_string(options.device.size_bytes) + ": less than one record of " +
                    std::to_string(options.record_bytes) + " bytes for each of " +
                    std::to_string(options.threads) + " threads");
  }
  const std::uint64_t buffers = options.record_bytes * options.batch * options.threads;
  if (buffers > kBuffersMax) {
    return fail(Status::invalid_argument, "threads x batch x record: " + std::to_string(buffers) +
                                              " bytes of buffers, more than " +
                                              base::format_size(kBuffersMax));
  }
  if (options.floor && options.record_bytes % kPageBytes != 0) {
    return fail(Status::invalid_argument,
                "record " + std::to_string(options.record_bytes) +
                    ": the floor is the codec alone, which takes whole pages of 4096 bytes");
  }
  return {};
}

}  // namespace uzram::bench
