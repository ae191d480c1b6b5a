// The attributes of write-back: what passes are told, and the life of a backing store.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "control/attributes.h"
#include "tests/support/pages.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/control/fake_host.h"
#include "tests/unit/control/real_host.h"

namespace uzram {

bool operator==(const PageRange& a, const PageRange& b) {
  return a.first == b.first && a.last == b.last;
}

}  // namespace uzram

namespace uzram::control {
namespace {

std::string get(const Host& host, std::string_view name) {
  return read_attribute(host, name).value();
}

Status set(Host& host, std::string_view name, std::string_view value) {
  const auto done = write_attribute(host, name, value);
  return done ? Status::ok : done.error().status;
}

WriteBackOptions told(std::string_view value) {
  test::FakeHost host;
  EXPECT_EQ(set(host, "writeback", value), Status::ok) << value;
  return host.fake_device().last_write_back();
}

TEST(WriteBack, TypesOfPages) {
  for (const auto& [name, pages] :
       {std::pair("idle", PageClass::idle), std::pair("huge", PageClass::huge),
        std::pair("huge_idle", PageClass::huge_idle),
        std::pair("incompressible", PageClass::incompressible)}) {
    EXPECT_EQ(told(name).pages, pages);
    EXPECT_EQ(told(" type=" + std::string(name) + " ").pages, pages);
    EXPECT_TRUE(told(name).ranges.empty());
  }
}

TEST(WriteBack, PagesInTheirOrderAndTypesWithThem) {
  const auto all = told("page_index=7 page_indexes=1-3 page_index=0");
  EXPECT_EQ(all.pages, PageClass::all);
  EXPECT_EQ(all.ranges, (std::vector<PageRange>{{7, 7}, {1, 3}, {0, 0}}));
  for (const char* value : {"page_indexes=5-9 type=idle", "idle page_indexes=5-9"}) {
    EXPECT_EQ(told(value).pages, PageClass::idle);
    EXPECT_EQ(told(value).ranges, (std::vector<PageRange>{{5, 9}}));
  }
  // Whether the device has them, and which comes first, the device judges.
  EXPECT_EQ(told("page_indexes=18446744073709551615-0").ranges,
            (std::vector<PageRange>{{~std::uint64_t{0}, 0}}));
}

TEST(WriteBack, ALongListIsTakenWhole) {
  std::string value;
  std::vector<PageRange> ranges;
  for (std::uint64_t page = 0; value.size() < 4095 - 20; page += 3) {
    value += "page_index=" + std::to_string(page) + " ";
    ranges.push_back({page, page});
  }
  EXPECT_EQ(told(value).ranges, ranges);
}

TEST(WriteBack, IsAPassThatTakesLong) {
  test::RealHost host;
  ASSERT_EQ(set(host, "disksize", "1M"), Status::ok);
  host.pass_under_way = true;
  EXPECT_EQ(set(host, "writeback", "idle"), Status::would_block);
  EXPECT_TRUE(find_attribute("writeback")->takes_long);
}

TEST(WriteBack, RefusalsNameTheWord) {
  test::FakeHost host;
  const auto message = [&host](std::string_view value) {
    return write_attribute(host, "writeback", value).error().message;
  };
  EXPECT_EQ(message("cold"), "writeback 'cold': must be idle, huge, huge_idle or incompressible");
  EXPECT_EQ(message("page_index=0 page_indexes=9"),
            "writeback 'page_indexes=9': must be FIRST-LAST");
  EXPECT_EQ(message("idle type=huge"), "writeback 'type=huge': a second type");
}

TEST(WriteBackLimits, EachIsChangedAlone) {
  test::RealHost host;
  EXPECT_EQ(get(host, "writeback_limit"), "0");
  EXPECT_EQ(get(host, "writeback_limit_enable"), "0");
  ASSERT_EQ(set(host, "writeback_limit", "18446744073709551615"), Status::ok);
  ASSERT_EQ(set(host, "writeback_limit_enable", "1"), Status::ok);
  ASSERT_EQ(set(host, "writeback_batch_size", "4294967295"), Status::ok);
  ASSERT_EQ(set(host, "writeback_limit", "7"), Status::ok);
  EXPECT_EQ(get(host, "writeback_limit"), "7");
  EXPECT_EQ(get(host, "writeback_limit_enable"), "1");
  EXPECT_EQ(get(host, "writeback_batch_size"), "4294967295");
}

TEST(WriteBackLimits, SettingsMakeTheDeviceAndResetForgetsThem) {
  test::RealHost host;
  ASSERT_EQ(set(host, "writeback_limit", "5"), Status::ok);
  ASSERT_EQ(set(host, "compressed_writeback", "1"), Status::ok);
  ASSERT_EQ(set(host, "disksize", "1M"), Status::ok);
  EXPECT_EQ(host.device()->options().write_back.budget_blocks, 5U);
  EXPECT_TRUE(host.device()->options().compressed_writeback);
  EXPECT_EQ(get(host, "compressed_writeback"), "1");
  ASSERT_EQ(set(host, "reset", "1"), Status::ok);
  EXPECT_EQ(get(host, "writeback_limit"), "0");
  EXPECT_EQ(get(host, "compressed_writeback"), "0");
}

TEST(WriteBackLimits, ARamDeviceHasNone) {
  test::RealHost host(DeviceType::ram);
  for (const auto& [name, value] :
       {std::pair("backing_dev", "none"), std::pair("compressed_writeback", "1"),
        std::pair("writeback_limit", "1"), std::pair("writeback_limit_enable", "1"),
        std::pair("writeback_batch_size", "1")}) {
    EXPECT_EQ(set(host, name, value), Status::invalid_argument) << name;
  }
  EXPECT_EQ(get(host, "backing_dev"), "none");
}

class BackingDev : public testing::Test {
 protected:
  std::string make_file(const std::string& name, std::uintmax_t size = 1 << 20) {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path).put('x');
    std::filesystem::resize_file(path, size);
    return path;
  }

  test::TempDir dir_;
};

TEST_F(BackingDev, IsOpenFromWhenItIsSetUntilItIsNot) {
  const std::string first = make_file("first"), second = make_file("second");
  test::RealHost a, b;
  ASSERT_EQ(set(a, "backing_dev", first), Status::ok);
  EXPECT_EQ(get(a, "backing_dev"), first);
  EXPECT_EQ(set(b, "backing_dev", first), Status::busy);
  EXPECT_EQ(get(b, "backing_dev"), "none");
  EXPECT_EQ(set(a, "backing_dev", first), Status::ok) << "it has it already";
  ASSERT_EQ(set(a, "backing_dev", second), Status::ok);
  EXPECT_EQ(set(b, "backing_dev", first), Status::ok) << "closed by another";
  ASSERT_EQ(set(a, "backing_dev", "none"), Status::ok);
  EXPECT_EQ(set(b, "backing_dev", second), Status::ok) << "closed by none";
  ASSERT_EQ(set(b, "reset", "1"), Status::ok);
  EXPECT_EQ(get(b, "backing_dev"), "none");
  EXPECT_EQ(set(a, "backing_dev", second), Status::ok) << "closed by a reset";
}

TEST_F(BackingDev, ARefusedOneLeavesTheOldOneOpen) {
  const std::string path = make_file("store");
  test::RealHost a, b;
  ASSERT_EQ(set(a, "backing_dev", path), Status::ok);
  const auto refused = write_attribute(a, "backing_dev", make_file("small", 4095));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "backing_dev " + dir_.path() + "/small: 4095 bytes, less than one block of 4096");
  EXPECT_EQ(get(a, "backing_dev"), path);
  EXPECT_EQ(set(b, "backing_dev", path), Status::busy);
}

TEST_F(BackingDev, MakesTheDevice) {
  test::RealHost a, b;
  const std::string path = make_file("store");
  ASSERT_EQ(set(a, "backing_dev", path), Status::ok);
  ASSERT_EQ(set(a, "disksize", "1M"), Status::ok);
  EXPECT_EQ(get(a, "backing_dev"), path);
  EXPECT_EQ(set(a, "backing_dev", "none"), Status::busy);
  EXPECT_EQ(set(b, "backing_dev", path), Status::busy);
  ASSERT_EQ(set(a, "reset", "1"), Status::ok);
  EXPECT_EQ(set(b, "backing_dev", path), Status::ok);
}

TEST_F(BackingDev, LimitsOfARunningDevice) {
  test::RealHost host;
  ASSERT_EQ(set(host, "backing_dev", make_file("store")), Status::ok);
  ASSERT_EQ(set(host, "writeback_batch_size", "3"), Status::ok);
  ASSERT_EQ(set(host, "disksize", "1M"), Status::ok);
  ASSERT_EQ(set(host, "writeback_limit", "2"), Status::ok);
  ASSERT_EQ(set(host, "writeback_limit_enable", "1"), Status::ok);
  EXPECT_EQ(get(host, "writeback_batch_size"), "3");
  test::Page page;
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    for (std::byte& byte : page) byte = static_cast<std::byte>(random());
    ASSERT_EQ(host.device()->write(i * kPageBytes, page), Status::ok);
  }
  EXPECT_EQ(set(host, "writeback", "huge"), Status::io_error);
  EXPECT_EQ(get(host, "writeback_limit"), "0");
  EXPECT_EQ(get(host, "bd_stat"), "2 0 2");
  EXPECT_EQ(set(host, "writeback", "page_indexes=0-256"), Status::out_of_range);
  EXPECT_EQ(set(host, "writeback", "page_index=256"), Status::out_of_range);
  EXPECT_EQ(set(host, "writeback", "page_indexes=2-1"), Status::out_of_range);
  ASSERT_EQ(set(host, "writeback_limit_enable", "0"), Status::ok);
  EXPECT_EQ(set(host, "writeback", "page_indexes=0-255"), Status::ok);
  EXPECT_EQ(get(host, "bd_stat"), "3 0 3");
  test::Page now;
  ASSERT_EQ(host.device()->read(2 * kPageBytes, now), Status::ok);
  EXPECT_EQ(now, page);
  ASSERT_EQ(set(host, "reset", "1"), Status::ok);
  EXPECT_EQ(get(host, "writeback_batch_size"), "32");
}

// A reset leaves a device to those who still hold it, for as long as they answer somebody.
TEST_F(BackingDev, WhoStillLooksAtADroppedDeviceIsWaitedFor) {
  test::RealHost host;
  const std::string path = make_file("store");
  ASSERT_EQ(set(host, "backing_dev", path), Status::ok);
  ASSERT_EQ(set(host, "disksize", "1M"), Status::ok);
  auto held = host.device();
  ASSERT_EQ(set(host, "reset", "1"), Status::ok);
  EXPECT_EQ(set(host, "backing_dev", path), Status::busy);
  held.reset();
  EXPECT_EQ(set(host, "backing_dev", path), Status::ok);
}

}  // namespace
}  // namespace uzram::control
