#include "bench/source_pages.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "bench/floor.h"
#include "codec/codec.h"

namespace uzram::bench {
namespace {

DeviceOptions lz4_device() {
  DeviceOptions options;
  options.size_bytes = kPageBytes;
  return options;
}

bool same_filled(std::span<const std::byte, kPageBytes> page) {
  return std::memcmp(page.data(), page.data() + 8, page.size() - 8) == 0;
}

TEST(HalfPages, AreHalvedByLz4) {
  const auto stream = codec::find("lz4")->make_stream({.level = 1}).value();
  std::array<std::byte, codec::kPackRoomBytes> room;
  for (const std::uint64_t seed : {1U, 2U, 12345U}) {
    const SourcePages pages = SourcePages::make({}, seed).value();
    std::size_t sum = 0;
    for (std::uint64_t i = 0; i < SourcePages::kPages; ++i) {
      const std::size_t size = stream->pack(pages.page(i), room);
      ASSERT_GE(size, 2048 * 98 / 100) << "seed " << seed << " page " << i;
      ASSERT_LE(size, 2048 * 102 / 100) << "seed " << seed << " page " << i;
      ASSERT_FALSE(same_filled(pages.page(i)));
      sum += size;
    }
    const double average = static_cast<double>(sum) / SourcePages::kPages;
    EXPECT_NEAR(average, 2048, 8) << seed;
  }
}

TEST(HalfPages, AreDistinctAndFollowTheSeed) {
  const SourcePages pages = SourcePages::make({}, 5).value();
  const SourcePages again = SourcePages::make({}, 5).value();
  const SourcePages other = SourcePages::make({}, 6).value();
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < SourcePages::kPages; ++i) {
    seen.emplace(reinterpret_cast<const char*>(pages.page(i).data()), kPageBytes);
  }
  EXPECT_EQ(seen.size(), SourcePages::kPages);
  EXPECT_EQ(std::memcmp(pages.at(0), again.at(0), SourcePages::kRingBytes), 0);
  EXPECT_NE(std::memcmp(pages.at(0), other.at(0), SourcePages::kRingBytes), 0);
}

TEST(SourcePages, KindsPackAsTheirNamesSay) {
  const SourcePages random = SourcePages::make({DataKind::random, {}}, 1).value();
  const SourcePages zero = SourcePages::make({DataKind::zero, {}}, 1).value();
  EXPECT_EQ(measure_packed(lz4_device(), random)->average, kPageBytes);
  EXPECT_LT(measure_packed(lz4_device(), zero)->max, 64U);
  EXPECT_TRUE(same_filled(zero.page(17)));
}

TEST(SourcePages, RecordsWrapRoundTheRing) {
  const SourcePages pages = SourcePages::make({}, 1).value();
  const std::uint64_t last = SourcePages::kRingBytes - kPageBytes;
  EXPECT_EQ(std::memcmp(pages.at(last) + kPageBytes, pages.at(0), kRecordMax - kPageBytes), 0);
  EXPECT_EQ(SourcePages::next(last, kPageBytes), 0U);
  EXPECT_EQ(SourcePages::next(last, kRecordMax), kRecordMax - kPageBytes);
}

class FilePages : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "uzram-pages-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write_file(std::uint64_t length) {
    const std::string path = directory_ / "data";
    std::ofstream file(path, std::ios::binary);
    for (std::uint64_t i = 0; i < length; ++i) {
      file.put(static_cast<char>(i / kPageBytes % 251 + 1));
    }
    return path;
  }
  static std::string error_of(const std::string& path) {
    const auto pages = SourcePages::make({DataKind::file, path}, 1);
    return pages ? "" : pages.error().message;
  }

  std::filesystem::path directory_;
};

TEST_F(FilePages, SmallFilesAreCycledAndPadded) {
  const std::string path = write_file(2 * kPageBytes + 100);
  const SourcePages pages = SourcePages::make({DataKind::file, path}, 1).value();
  EXPECT_EQ(pages.page(0)[0], std::byte{1});
  EXPECT_EQ(pages.page(1)[4095], std::byte{2});
  EXPECT_EQ(pages.page(2)[99], std::byte{3});
  EXPECT_EQ(pages.page(2)[100], std::byte{0});
  EXPECT_EQ(pages.page(3)[0], std::byte{1});
}

TEST_F(FilePages, LargeFilesAreSampledFromEndToEnd) {
  const std::string path = write_file(0);
  std::filesystem::resize_file(path, SourcePages::kRingBytes * 8);  // a hole but for its end
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(SourcePages::kRingBytes * 8 - 8 * kPageBytes));
    for (std::uint64_t i = 0; i < 8 * kPageBytes; ++i) file.put('x');
  }
  const SourcePages pages = SourcePages::make({DataKind::file, path}, 1).value();
  EXPECT_EQ(pages.page(0)[0], std::byte{0});
  EXPECT_EQ(pages.page(SourcePages::kPages - 1)[0], std::byte{'x'});
}

TEST_F(FilePages, WhatIsNoFileIsRefused) {
  EXPECT_NE(error_of(directory_ / "missing").find("missing: No such file"), std::string::npos);
  EXPECT_NE(error_of(directory_).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of(write_file(0)).find("empty"), std::string::npos);
  const std::string fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(error_of(fifo).find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace uzram::bench
