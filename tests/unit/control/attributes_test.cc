#include "control/attributes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <vector>

#include "tests/support/pages.h"
#include "tests/unit/control/real_host.h"

namespace uzram::control {
namespace {

constexpr Status kOk = Status::ok;
constexpr Status kInvalid = Status::invalid_argument;

std::string get(const Host& host, std::string_view name) {
  const auto value = read_attribute(host, name);
  return value ? *value : "error: " + value.error().message;
}

Status get_status(const Host& host, std::string_view name) {
  const auto value = read_attribute(host, name);
  return value ? kOk : value.error().status;
}

Status set(Host& host, std::string_view name, std::string_view value) {
  const auto done = write_attribute(host, name, value);
  return done ? kOk : done.error().status;
}

// Everything that can be read, as one text.
std::string all_of(const Host& host) {
  std::string text;
  for (const Attribute& attribute : attributes()) {
    if (attribute.readable() && !attribute.in_parts()) {
      text += std::string(attribute.name) + "=" + get(host, attribute.name) + "\n";
    }
  }
  return text;
}

// What a write to an attribute gives on a new device, on a running one, and on one in use.
struct Write {
  const char* name;
  const char* value;
  Status early, live, used;
};

const std::vector<Write> kWrites = {
    {"disksize", "1M", kOk, Status::busy, Status::busy},
    {"disksize", "1", kOk, Status::busy, Status::busy},
    {"disksize", "0", kInvalid, kInvalid, kInvalid},
    {"disksize", "1Mx", kInvalid, kInvalid, kInvalid},
    {"disksize", "1M\n2", kInvalid, kInvalid, kInvalid},
    {"disksize", "", kInvalid, kInvalid, kInvalid},
    {"disksize", "-1", kInvalid, kInvalid, kInvalid},
    {"disksize", "8388608T", kInvalid, kInvalid, kInvalid},
    {"resize", "64M", kInvalid, kOk, kOk},
    {"resize", "8M", kInvalid, kOk, kOk},
    {"resize", "0", kInvalid, kInvalid, kInvalid},
    {"resize", "1Mx", kInvalid, kInvalid, kInvalid},
    {"resize", "", kInvalid, kInvalid, kInvalid},
    {"resize", "8388607T", kInvalid, Status::no_space, Status::no_space},
    {"initstate", "1", Status::permission, Status::permission, Status::permission},
    {"reset", "1", kOk, kOk, Status::busy},
    {"reset", "0", kInvalid, kInvalid, kInvalid},
    {"reset", "2", kInvalid, kInvalid, kInvalid},
    {"reset", "", kInvalid, kInvalid, kInvalid},
    {"reset", "1 ", kInvalid, kInvalid, kInvalid},
    {"comp_algorithm", "zstd", kOk, Status::busy, Status::busy},
    {"comp_algorithm", "nosuch", kInvalid, kInvalid, kInvalid},
    {"comp_algorithm", "", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "priority=0", kOk, Status::busy, Status::busy},
    {"algorithm_params", " algo=lz4  priority=0 ", kOk, Status::busy, Status::busy},
    {"algorithm_params", "", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "level=", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "level", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "=1", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "level=1x", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "level=99999999999", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "priority=1", kInvalid, Status::busy, Status::busy},
    {"algorithm_params", "priority=-1", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "priority=4", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "dict=", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "dict=relative", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "dict=/nonexistent/dictionary", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "deflate.winbits=", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "deflate.winbits=1x", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "deflate.winbits=15", kInvalid, Status::busy, Status::busy},  // not lz4's
    {"recomp_algorithm", "algo=zstd", kOk, Status::busy, Status::busy},
    {"recomp_algorithm", "algo=zstd priority=3", kOk, Status::busy, Status::busy},
    {"recomp_algorithm", "algo=zstd priority=0", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "algo=zstd priority=4", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "priority=1", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "algo=nosuch", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "algo=zstd level=1", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "zstd", kInvalid, kInvalid, kInvalid},
    {"recomp_algorithm", "", kInvalid, kInvalid, kInvalid},
    {"idle", "all", kInvalid, kOk, kOk},
    {"idle", "3600", kInvalid, kOk, kOk},
    {"idle", "-1", kInvalid, kInvalid, kInvalid},
    {"idle", "1h", kInvalid, kInvalid, kInvalid},
    {"idle", "", kInvalid, kInvalid, kInvalid},
    {"recompress", "type=idle", kInvalid, kInvalid, kInvalid},  // no second codec
    {"recompress", "type=cold", kInvalid, kInvalid, kInvalid},
    {"recompress", "speed=1", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "speed=1", kInvalid, kInvalid, kInvalid},
    {"algorithm_params", "algo=zstd", kInvalid, Status::busy, Status::busy},
    {"mem_limit", "1M", kOk, kOk, kOk},
    {"mem_limit", "0", kOk, kOk, kOk},
    {"mem_limit", "", kInvalid, kInvalid, kInvalid},
    {"mem_limit", "1e3", kInvalid, kInvalid, kInvalid},
    {"mem_limit", "99999999999999999999", kInvalid, kInvalid, kInvalid},
    {"mem_used_max", "0", kOk, kOk, kOk},
    {"mem_used_max", "1", kInvalid, kInvalid, kInvalid},
    {"mem_used_max", "", kInvalid, kInvalid, kInvalid},
    {"compact", "1", kInvalid, kOk, kOk},
    {"compact", "", kInvalid, kOk, kOk},
    {"backing_dev", "none", kOk, Status::busy, Status::busy},
    {"backing_dev", "/nonexistent/store", Status::not_found, Status::busy, Status::busy},
    {"backing_dev", "/dev/null", kInvalid, Status::busy, Status::busy},
    {"backing_dev", "/", kInvalid, Status::busy, Status::busy},
    {"backing_dev", "http://example.org/", kInvalid, Status::busy, Status::busy},
    {"backing_dev", "relative", kInvalid, kInvalid, kInvalid},
    {"backing_dev", "None", kInvalid, kInvalid, kInvalid},
    {"backing_dev", "", kInvalid, kInvalid, kInvalid},
    {"compressed_writeback", "1", kOk, Status::busy, Status::busy},
    {"compressed_writeback", "0", kOk, Status::busy, Status::busy},
    {"compressed_writeback", "2", kInvalid, kInvalid, kInvalid},
    {"compressed_writeback", "", kInvalid, kInvalid, kInvalid},
    {"writeback", "idle", kInvalid, Status::no_device, Status::no_device},
    {"writeback", "page_index=0", kInvalid, Status::no_device, Status::no_device},
    {"writeback", "", kInvalid, kInvalid, kInvalid},
    {"writeback", "all", kInvalid, kInvalid, kInvalid},
    {"writeback", "type=", kInvalid, kInvalid, kInvalid},
    {"writeback", "idle huge", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_index", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_index=", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_index=-1", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_index=1-2", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_indexes=1", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_indexes=-2", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_indexes=1-", kInvalid, kInvalid, kInvalid},
    {"writeback", "page_indexes=1-2-3", kInvalid, kInvalid, kInvalid},
    {"writeback", "pages=1", kInvalid, kInvalid, kInvalid},
    {"writeback", "=idle", kInvalid, kInvalid, kInvalid},
    {"writeback_limit", "8", kOk, kOk, kOk},
    {"writeback_limit", "-1", kInvalid, kInvalid, kInvalid},
    {"writeback_limit", "1M", kInvalid, kInvalid, kInvalid},
    {"writeback_limit", "18446744073709551616", kInvalid, kInvalid, kInvalid},
    {"writeback_limit", "", kInvalid, kInvalid, kInvalid},
    {"writeback_limit_enable", "1", kOk, kOk, kOk},
    {"writeback_limit_enable", "2", kInvalid, kInvalid, kInvalid},
    {"writeback_limit_enable", "", kInvalid, kInvalid, kInvalid},
    {"writeback_batch_size", "1", kOk, kOk, kOk},
    {"writeback_batch_size", "0", kInvalid, kInvalid, kInvalid},
    {"writeback_batch_size", "4294967296", kInvalid, kInvalid, kInvalid},
    {"writeback_batch_size", "", kInvalid, kInvalid, kInvalid},
    {"bd_stat", "1", Status::permission, Status::permission, Status::permission},
    {"mm_stat", "1", Status::permission, Status::permission, Status::permission},
    {"io_stat", "1", Status::permission, Status::permission, Status::permission},
    {"debug_stat", "1", Status::permission, Status::permission, Status::permission},
    {"orig_data_size", "0", Status::permission, Status::permission, Status::permission},
    {"nosuch", "1", kInvalid, kInvalid, kInvalid},
    {"", "1", kInvalid, kInvalid, kInvalid},
};

TEST(AttributeWrites, EachHasItsStatusAtEachTime) {
  for (const Write& write : kWrites) {
    const std::string what = std::string(write.name) + " '" + write.value + "'";
    test::RealHost early;
    const std::string before = all_of(early);
    EXPECT_EQ(set(early, write.name, write.value), write.early) << what << " on a new device";
    if (write.early != kOk) {
      EXPECT_EQ(all_of(early), before) << what;
    }

    test::RealHost live;
    ASSERT_EQ(set(live, "disksize", "16M"), kOk);
    const std::string running = all_of(live);
    EXPECT_EQ(set(live, write.name, write.value), write.live) << what << " on a running device";
    if (write.live != kOk) {
      EXPECT_EQ(all_of(live), running) << what;
    }

    test::RealHost used;
    ASSERT_EQ(set(used, "disksize", "16M"), kOk);
    used.clients_now = 1;
    EXPECT_EQ(set(used, write.name, write.value), write.used) << what << " on a device in use";

    // After a reset it is as on a new device.
    ASSERT_EQ(set(live, "reset", "1"), kOk);
    EXPECT_EQ(all_of(live), before) << what;
    EXPECT_EQ(set(live, write.name, write.value), write.early) << what << " after a reset";
  }
}

TEST(AttributeWrites, EveryWritableAttributeIsInTheTable) {
  for (const Attribute& attribute : attributes()) {
    if (!attribute.writable()) continue;
    const bool tested = std::any_of(kWrites.begin(), kWrites.end(), [&](const Write& write) {
      return write.name == attribute.name;
    });
    EXPECT_TRUE(tested) << attribute.name;
  }
}

TEST(AttributeWrites, RefusalsNameAttributeValueAndRule) {
  test::RealHost host;
  const auto message = [&host](std::string_view name, std::string_view value) {
    const auto done = write_attribute(host, name, value);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(message("reset", "7"), "reset '7': must be 1");
  EXPECT_NE(message("comp_algorithm", "nosuch").find(codec_names()), std::string::npos);
  EXPECT_NE(message("algorithm_params", "speed=1").find("'speed=1': unknown"), std::string::npos);
  EXPECT_NE(message("compact", "1").find("disksize"), std::string::npos);
  EXPECT_NE(message("nosuch", "1").find("mm_stat"), std::string::npos);
}

TEST(Attributes, EveryCounterHasOneRow) {
  std::set<std::string_view> names;
  std::size_t counters = 0;
  for (const Attribute& attribute : attributes()) {
    EXPECT_TRUE(names.insert(attribute.name).second) << attribute.name;
    EXPECT_FALSE(attribute.help.empty()) << attribute.name;
    EXPECT_TRUE(attribute.readable() || attribute.writable()) << attribute.name;
    if (attribute.counter != nullptr) ++counters;
  }
  EXPECT_EQ(counters, sizeof(Stats) / sizeof(std::uint64_t));
}

TEST(Attributes, ANewDeviceIsReadAsEmpty) {
  const test::RealHost host;
  EXPECT_EQ(get(host, "disksize"), "0");
  EXPECT_EQ(get(host, "initstate"), "0");
  EXPECT_EQ(get(host, "mm_stat"), "0 0 0 0 0 0 0 0 0");
  EXPECT_EQ(get(host, "io_stat"), "0 0 0 0");
  EXPECT_EQ(get(host, "bd_stat"), "0 0 0");
  EXPECT_EQ(get(host, "backing_dev"), "none");
  EXPECT_EQ(get(host, "writeback_batch_size"), "32");
  EXPECT_EQ(get(host, "debug_stat"), "version: 1\n0 0");
  for (const Attribute& attribute : attributes()) {
    const Status status = attribute.in_parts()   ? kInvalid
                          : attribute.readable() ? kOk
                                                 : Status::permission;
    EXPECT_EQ(get_status(host, attribute.name), status) << attribute.name;
  }
  EXPECT_EQ(get_status(host, "nosuch"), kInvalid);
}

TEST(Attributes, SettingsMakeTheDevice) {
  test::RealHost host;
  ASSERT_EQ(set(host, "comp_algorithm", "zstd"), kOk);
  ASSERT_EQ(set(host, "algorithm_params", "algo=zstd level=7"), kOk);
  ASSERT_EQ(set(host, "mem_limit", "1M"), kOk);
  EXPECT_NE(get(host, "comp_algorithm").find("[zstd]"), std::string::npos);
  EXPECT_EQ(get(host, "mm_stat"), "0 0 0 1048576 0 0 0 0 0");
  ASSERT_EQ(set(host, "disksize", "4097"), kOk);
  EXPECT_EQ(get(host, "disksize"), "8192");
  EXPECT_EQ(get(host, "initstate"), "1");
  const DeviceOptions& options = host.device()->options();
  EXPECT_EQ(options.codec, "zstd");
  EXPECT_EQ(options.params.level, 7);
  EXPECT_EQ(host.device()->stats().mem_limit, 1U << 20);
  ASSERT_EQ(set(host, "mem_limit", "4097"), kOk);
  EXPECT_EQ(host.device()->stats().mem_limit, 8192U);
}

TEST(Attributes, StatColumnsAreTheKernels) {
  test::RealHost host;
  ASSERT_EQ(set(host, "mem_limit", "64M"), kOk);
  ASSERT_EQ(set(host, "disksize", "16M"), kOk);
  // Counters that are all different: packed pages, raw ones, same-filled ones, freed ones.
  Device& device = *host.device();
  std::mt19937_64 random(1);
  for (std::uint64_t page = 0; page < 30; ++page) {
    std::array<std::uint64_t, kPageBytes / 8> words{};
    const std::size_t noise = page < 7 ? words.size() : page < 20 ? 100 : 0;
    for (std::size_t i = 0; i < noise; ++i) words[i] = random();
    ASSERT_EQ(device.write(page * kPageBytes, std::as_bytes(std::span(words))), kOk);
  }
  ASSERT_EQ(device.discard(0, 2 * kPageBytes), kOk);
  ASSERT_NE(device.discard(1 << 30, 4096), kOk);
  const Stats s = device.stats();
  EXPECT_EQ(s.huge_pages, 5U);
  EXPECT_EQ(s.huge_pages_since, 7U);
  EXPECT_EQ(s.same_pages, 10U);
  EXPECT_EQ(s.notify_free, 2U);
  EXPECT_EQ(s.invalid_io, 1U);
  std::string mm_stat;
  for (const std::uint64_t column :
       {s.orig_data_size, s.compr_data_size, s.mem_used_total, s.mem_limit, s.mem_used_max,
        s.same_pages, s.pages_compacted, s.huge_pages, s.huge_pages_since}) {
    mm_stat += (mm_stat.empty() ? "" : " ") + std::to_string(column);
  }
  EXPECT_EQ(get(host, "mm_stat"), mm_stat);
  EXPECT_EQ(get(host, "io_stat"), "0 0 1 2");
}

TEST(Attributes, ParametersAreReplacedAsAWhole) {
  test::RealHost host;
  ASSERT_EQ(set(host, "comp_algorithm", "zstd"), kOk);
  ASSERT_EQ(set(host, "algorithm_params", "level=19"), kOk);
  EXPECT_EQ(host.options().params.level, 19);
  ASSERT_EQ(set(host, "algorithm_params", "priority=0"), kOk);
  EXPECT_EQ(host.options().params.level, std::nullopt);
}

TEST(Attributes, ALevelThatTheCodecDoesNotTakeIsRefusedWhenItIsSet) {
  test::RealHost host;
  ASSERT_EQ(set(host, "comp_algorithm", "zstd"), kOk);
  EXPECT_EQ(set(host, "algorithm_params", "level=1000"), kInvalid);
  EXPECT_EQ(host.options().params.level, std::nullopt);
  ASSERT_EQ(set(host, "algorithm_params", "level=22"), kOk);
  EXPECT_EQ(set(host, "comp_algorithm", "deflate"), kInvalid);
  EXPECT_EQ(host.options().codec, "zstd");
  ASSERT_EQ(set(host, "algorithm_params", "level=9"), kOk);
  EXPECT_EQ(set(host, "comp_algorithm", "deflate"), kOk);
  EXPECT_EQ(host.options().params.level, 9);
}

TEST(Attributes, LzoRleIsTakenForLzo) {
  test::RealHost host;
  if (set(host, "comp_algorithm", "lzo") != kOk) GTEST_SKIP() << "this build has no lzo";
  ASSERT_EQ(set(host, "comp_algorithm", "lz4"), kOk);
  ASSERT_EQ(set(host, "comp_algorithm", "lzo-rle"), kOk);
  EXPECT_EQ(host.options().codec, "lzo");
  EXPECT_NE(get(host, "comp_algorithm").find("[lzo]"), std::string::npos);
  EXPECT_EQ(set(host, "algorithm_params", "algo=lzo-rle"), kOk);
  ASSERT_EQ(set(host, "recomp_algorithm", "algo=lzo-rle priority=2"), kOk);
  EXPECT_EQ(host.options().recompress_codecs[1]->name, "lzo");
  ASSERT_EQ(set(host, "disksize", "1M"), kOk);
  EXPECT_EQ(set(host, "recompress", "algo=lzo-rle"), kOk);
  EXPECT_EQ(host.device()->options().codec, "lzo");
}

TEST(Attributes, ARamDeviceHasNoCodec) {
  test::RealHost host(DeviceType::ram);
  EXPECT_EQ(get(host, "comp_algorithm").find('['), std::string::npos);
  EXPECT_EQ(set(host, "comp_algorithm", "zstd"), kInvalid);
  EXPECT_EQ(set(host, "algorithm_params", "priority=0"), kInvalid);
  EXPECT_EQ(set(host, "disksize", "1M"), kOk);
}

TEST(Attributes, AFailedInitLeavesANewDevice) {
  test::RealHost host;
  ASSERT_EQ(set(host, "comp_algorithm", "zstd"), kOk);
  host.init_refusal = Error{Status::no_memory, "no memory"};
  EXPECT_EQ(set(host, "disksize", "1M"), Status::no_memory);
  EXPECT_EQ(get(host, "initstate"), "0");
  EXPECT_EQ(get(host, "disksize"), "0");
  EXPECT_NE(get(host, "comp_algorithm").find("[zstd]"), std::string::npos);
  host.init_refusal.reset();
  EXPECT_EQ(set(host, "reset", "1"), kOk);
  EXPECT_EQ(set(host, "disksize", "1M"), kOk);
}

TEST(Attributes, OfTwoPassesTheSecondIsToldToComeAgain) {
  test::RealHost host;
  ASSERT_EQ(set(host, "disksize", "1M"), kOk);
  host.pass_under_way = true;
  EXPECT_EQ(set(host, "compact", "1"), Status::would_block);
}

TEST(RoundUpToPage, NeverWrapsAndNeverRoundsDown) {
  EXPECT_EQ(round_up_to_page(0), 0U);
  EXPECT_EQ(round_up_to_page(1), 4096U);
  EXPECT_EQ(round_up_to_page(4096), 4096U);
  EXPECT_EQ(round_up_to_page(4097), 8192U);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax - 4095), kDeviceBytesMax - 4095);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax - 4094), kDeviceBytesMax);
  EXPECT_EQ(round_up_to_page(kDeviceBytesMax), kDeviceBytesMax);
}

TEST(RecompressAttributes, FromTheCodecsToThePages) {
  test::RealHost host;
  EXPECT_EQ(get(host, "recomp_algorithm"), "");
  ASSERT_EQ(set(host, "recomp_algorithm", "algo=zstd priority=1"), kOk);
  ASSERT_EQ(set(host, "recomp_algorithm", "priority=3 algo=deflate"), kOk);
  EXPECT_NE(get(host, "recomp_algorithm").find("#1: lz4"), std::string::npos);
  EXPECT_NE(get(host, "recomp_algorithm").find("[deflate]"), std::string::npos);
  EXPECT_EQ(set(host, "algorithm_params", "priority=1 level=22"), kOk);
  EXPECT_EQ(set(host, "algorithm_params", "algo=deflate level=12"), kOk);
  EXPECT_EQ(set(host, "algorithm_params", "algo=deflate level=13"), kInvalid);
  EXPECT_EQ(set(host, "algorithm_params", "priority=2 level=1"), kInvalid);
  EXPECT_EQ(set(host, "algorithm_params", "priority=1 algo=deflate"), kInvalid);
  EXPECT_EQ(host.options().recompress_codecs[0]->params.level, 22);
  EXPECT_EQ(host.options().recompress_codecs[2]->params.level, 12);
  ASSERT_EQ(set(host, "disksize", "1M"), kOk);
  test::Page page;
  std::mt19937_64 random(1);
  for (std::byte& byte : page) byte = static_cast<std::byte>("0123456789abcdef"[random() % 16]);
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(host.device()->write(i * kPageBytes, page), Status::ok);
  }
  ASSERT_EQ(get(host, "huge_pages"), "8");
  EXPECT_EQ(set(host, "recompress", "type=huge_idle"), kOk);
  EXPECT_EQ(get(host, "huge_pages"), "8");
  EXPECT_EQ(set(host, "idle", "all"), kOk);
  EXPECT_EQ(set(host, "recompress", "type=huge_idle max_pages=3 algo=zstd"), kOk);
  EXPECT_EQ(get(host, "huge_pages"), "5");
  EXPECT_EQ(set(host, "recompress", ""), kOk);
  EXPECT_EQ(get(host, "huge_pages"), "0");
  EXPECT_EQ(set(host, "recompress", "algo=lz4"), kInvalid);
  EXPECT_EQ(set(host, "recompress", "priority=2"), kInvalid);
  EXPECT_EQ(set(host, "recompress", "threshold=4096"), kInvalid);
  EXPECT_EQ(set(host, "recompress", "max_pages=-1"), kInvalid);
  test::Page now;
  ASSERT_EQ(host.device()->read(7 * kPageBytes, now), Status::ok);
  EXPECT_EQ(now, page);
}

}  // namespace
}  // namespace uzram::control
