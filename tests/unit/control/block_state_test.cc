// The attribute block_state: its lines, and the parts that it is read in.
#include <gtest/gtest.h>
#include <time.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "control/attributes.h"
#include "control/json_rpc.h"
#include "control/methods.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"
#include "tests/unit/control/real_host.h"

namespace uzram::control {
namespace {

const Attribute& kBlockState = *find_attribute("block_state");

struct Line {
  std::uint64_t page = 0;
  double used = 0;
  std::string flags;
};

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  for (Line line; in >> line.page >> line.used >> line.flags;) lines.push_back(line);
  return lines;
}

std::vector<Line> lines_of(const Host& host) {
  const Part part = read_attribute_part(host, kBlockState, 0);
  EXPECT_EQ(part.next, std::nullopt);
  return lines_of(part.text);
}

void set(Host& host, std::string_view name, std::string_view value) {
  const auto done = write_attribute(host, name, value);
  ASSERT_TRUE(done) << done.error().message;
}

void write_filled(Device& device, std::uint64_t page, int fill) {
  test::Page bytes;
  bytes.fill(static_cast<std::byte>(fill));
  ASSERT_EQ(device.write(page * kPageBytes, bytes), Status::ok);
}

void write_noise(Device& device, std::uint64_t page, unsigned values) {
  test::Page bytes;
  std::mt19937_64 random(page);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % values);
  ASSERT_EQ(device.write(page * kPageBytes, bytes), Status::ok);
}

double seconds_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec);
}

TEST(BlockState, ANewOrEmptyDeviceHasNoLines) {
  test::RealHost host;
  EXPECT_EQ(read_attribute_part(host, kBlockState, 0).text, "");
  set(host, "disksize", "1M");
  const Part part = read_attribute_part(host, kBlockState, 0);
  EXPECT_EQ(part.text, "");
  EXPECT_EQ(part.next, std::nullopt);
}

TEST(BlockState, LinesAreTheKernels) {
  test::RealHost host;
  set(host, "disksize", "1M");
  write_filled(*host.device(), 3, 7);
  const Part part = read_attribute_part(host, kBlockState, 0);
  ASSERT_EQ(part.text.size(), 12U + 1 + 12 + 7 + 1 + 6 + 1);
  EXPECT_EQ(part.text.substr(0, 13), "           3 ");
  EXPECT_EQ(part.text.substr(25), ".000000 s.....\n");
}

TEST(BlockState, EachFlagIsItsOwn) {
  const double begin = seconds_since_boot();
  test::RealHost host;
  set(host, "recomp_algorithm", "algo=zstd");
  ASSERT_TRUE(host.configure([](DeviceOptions& options) -> Result<void> {
    options.backing = std::make_shared<test::FakeStore>(64);
    return {};
  }));
  set(host, "disksize", "1M");
  Device& device = *host.device();
  write_filled(device, 0, 1);
  write_noise(device, 1, 4);     // packed
  write_noise(device, 2, 16);    // huge, until zstd packs it
  write_noise(device, 9, 256);   // never anything but huge
  write_noise(device, 10, 256);  // written back
  const auto flags = [&host] {
    std::string all;
    for (const Line& line : lines_of(host)) all += std::to_string(line.page) + line.flags + " ";
    return all;
  };
  EXPECT_EQ(flags(), "0s..... 1...... 2..h... 9..h... 10..h... ");
  set(host, "writeback", "page_index=10");
  set(host, "recompress", "type=huge");
  EXPECT_EQ(flags(), "0s..... 1...... 2....r. 9..h..n 10.w.... ");
  set(host, "idle", "all");
  EXPECT_EQ(flags(), "0s..... 1...i.. 2...ir. 9..hi.n 10.w.... ");
  const double end = seconds_since_boot();
  for (const Line& line : lines_of(host)) {
    EXPECT_GE(line.used, begin - 1) << line.page;
    EXPECT_LE(line.used, end) << line.page;
  }
}

// Also over the control socket, and without a line that is longer than it takes.
TEST(BlockState, ALongOneIsReadInParts) {
  test::RealHost host;
  set(host, "disksize", "64M");
  std::vector<std::uint64_t> pages;
  for (std::uint64_t page = 5; page < 16384; page += 4) {
    write_filled(*host.device(), page, 1);
    pages.push_back(page);
  }
  std::string text;
  nlohmann::json params = {{"name", "block_state"}};
  unsigned parts = 0;
  for (bool more = true; more; ++parts) {
    const std::string reply = answer(host, dump_line(make_request(1, "device.get", params)));
    EXPECT_LE(reply.size(), kLineBytesMax);
    const auto part = part_of_answer(parse_reply(reply).value());
    ASSERT_TRUE(part);
    text += part->text;
    more = part->next.has_value();
    if (more) params["from"] = *part->next;
  }
  EXPECT_GE(parts, 4U);
  std::vector<std::uint64_t> listed;
  for (const Line& line : lines_of(text)) listed.push_back(line.page);
  EXPECT_EQ(listed, pages);
}

TEST(BlockState, WhereAPartBeginsIsANumber) {
  test::RealHost host;
  const auto status = [&host](const char* name, const nlohmann::json& from) {
    const auto reply = parse_reply(
        answer(host, dump_line(make_request(1, "device.get", {{"name", name}, {"from", from}}))));
    return reply ? Status::ok : reply.error().status;
  };
  EXPECT_EQ(status("block_state", 7), Status::ok);
  for (const nlohmann::json& from :
       {nlohmann::json("7"), nlohmann::json(-1), nlohmann::json(0.5), nlohmann::json(nullptr)}) {
    EXPECT_EQ(status("block_state", from), Status::invalid_argument) << from;
  }
  EXPECT_EQ(status("disksize", 0), Status::invalid_argument);
}

TEST(PartOfAnswer, WhatIsNoneIsAnError) {
  EXPECT_EQ(part_of_answer("x").value().text, "x\n");
  EXPECT_EQ(part_of_answer({{"text", "a\n"}, {"next", 7U}}).value().next, 7U);
  for (const char* answer : {"7", "null", "[]", "{}", R"({"text":"a"})", R"({"next":7})",
                             R"({"text":7,"next":7})", R"({"text":"","next":-1})"}) {
    EXPECT_FALSE(part_of_answer(nlohmann::json::parse(answer))) << answer;
  }
}

}  // namespace
}  // namespace uzram::control
