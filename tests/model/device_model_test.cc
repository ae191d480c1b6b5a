// Random operations on a device and on a plain array, compared byte for byte.
//
// The seed is printed; UZRAM_SEED runs another one and UZRAM_MODEL_OPS more operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "device/paged_device.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

std::uint64_t env_or(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Case {
  DeviceType type;
  std::string codec;
  std::uint64_t size;
  std::uint64_t limit;
  std::uint64_t backing_blocks = 0;
  bool packed_there = false;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return (info.param.type == DeviceType::ram ? "ram" : info.param.codec) + "_" +
         std::to_string(info.param.size) + (info.param.limit != 0 ? "_limited" : "") +
         (info.param.backing_blocks == 0 ? ""
          : info.param.packed_there      ? "_packed"
                                         : "_backed");
}

class DeviceModel : public testing::TestWithParam<Case> {
 protected:
  DeviceModel() : random_(env_or("UZRAM_SEED", 20240611)), model_(GetParam().size), before_() {
    const Case& c = GetParam();
    DeviceOptions options{
        .type = c.type,
        .size_bytes = c.size,
        .codec = c.codec,
        .mem_limit_bytes = c.limit,
        .recompress_codecs = {CodecChoice{"deflate", {.level = 1}}, std::nullopt,
                              CodecChoice{"zstd", {.level = 19}}},
        .compressed_writeback = c.packed_there,
    };
    if (c.backing_blocks != 0) {
      options.backing = std::make_shared<test::FakeStore>(c.backing_blocks);
    }
    auto made = create_device(options);
    if (!made) throw std::runtime_error(made.error().message);
    device_ = std::move(*made);
  }

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  // Lengths and edges of every kind: whole pages, parts of one, across several.
  std::pair<std::uint64_t, std::uint64_t> range() {
    const std::uint64_t size = model_.size();
    std::uint64_t offset = below(size), length = 1 + below(3 * kPageBytes);
    switch (below(6)) {
      case 0:
      case 1:
        offset = offset / kPageBytes * kPageBytes;
        length = kPageBytes;
        break;
      case 2:
        offset = offset / 512 * 512;
        length = 512 * (1 + below(8));
        break;
      case 3:
        length = 1 + below(40 * kPageBytes);
        break;
      case 4:
        offset = offset / kPageBytes * kPageBytes;
        length = kPageBytes * (1 + below(20));
        break;
      default:
        break;
    }
    return {offset, std::min(length, size - offset)};
  }

  void write() {
    const auto [offset, length] = range();
    std::vector<std::byte> data(length);
    for (std::uint64_t at = 0; at < length; at += kPageBytes) {
      const auto page =
          test::make_page(random_, static_cast<test::PageKind>(below(test::kPageKinds)));
      std::memcpy(data.data() + at, page.data(), std::min<std::uint64_t>(kPageBytes, length - at));
    }
    const Status status = device_->write(offset, data);
    if (status == Status::ok) {
      std::memcpy(model_.data() + offset, data.data(), length);
      return;
    }
    ASSERT_EQ(status, Status::no_space);
    ASSERT_NE(GetParam().limit, 0U);
    ++refused_;
    settle_after_refusal(offset, length, data);
  }

  // Whole pages of a refused write are unchanged; an unaligned head before them may be in.
  void settle_after_refusal(std::uint64_t offset, std::uint64_t length,
                            const std::vector<std::byte>& data) {
    const std::uint64_t head =
        std::min<std::uint64_t>(length, (kPageBytes - offset % kPageBytes) % kPageBytes);
    std::vector<std::byte> now(head);
    ASSERT_EQ(device_->read(offset, now), Status::ok);
    if (std::equal(now.begin(), now.end(), data.begin())) {
      std::copy(now.begin(), now.end(), model_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    const std::uint64_t whole_end = (offset + length) / kPageBytes * kPageBytes;
    std::uint64_t at = offset + head;
    if (at < whole_end) {
      now.resize(whole_end - at);
      ASSERT_EQ(device_->read(at, now), Status::ok);
      // Only the tail's refusal leaves them new, and then all of them.
      if (std::memcmp(now.data(), model_.data() + at, now.size()) != 0) {
        ASSERT_EQ(std::memcmp(now.data(), data.data() + (at - offset), now.size()), 0);
        ASSERT_NE((offset + length) % kPageBytes, 0U);
        std::memcpy(model_.data() + at, now.data(), now.size());
      }
    }
  }

  void read() {
    const auto [offset, length] = range();
    std::vector<std::byte> data(length, std::byte{0xee});
    ASSERT_EQ(device_->read(offset, data), Status::ok);
    ASSERT_EQ(std::memcmp(data.data(), model_.data() + offset, length), 0)
        << "offset " << offset << " length " << length;
  }

  void zero() {
    const auto [offset, length] = range();
    const std::uint64_t kind = below(3);
    std::vector<std::byte> old(model_.begin() + static_cast<std::ptrdiff_t>(offset),
                               model_.begin() + static_cast<std::ptrdiff_t>(offset + length));
    const Status status = kind == 0 ? device_->discard(offset, length)
                                    : device_->write_zeroes(offset, length, kind == 1);
    if (GetParam().limit == 0 || kind == 0) {
      ASSERT_EQ(status, Status::ok);
    }
    std::memset(model_.data() + offset, 0, length);
    if (GetParam().limit == 0) return;
    // An edge that found no room keeps its bytes; what is read is what stays.
    std::vector<std::byte> now(length);
    ASSERT_EQ(device_->read(offset, now), Status::ok);
    for (std::uint64_t i = 0; i < length; ++i) {
      ASSERT_TRUE(now[i] == std::byte{0} || now[i] == old[i]) << "offset " << offset + i;
    }
    std::memcpy(model_.data() + offset, now.data(), length);
  }

  void resize() {
    const std::uint64_t size = GetParam().size / 2 + below(GetParam().size);
    if (below(2) == 0 && size < model_.size()) {
      ASSERT_EQ(device_->discard(size, model_.size() - size), Status::ok);
      std::vector<std::byte> now(model_.size() - size);  // an edge that found no room stays
      ASSERT_EQ(device_->read(size, now), Status::ok);
      std::copy(now.begin(), now.end(), model_.begin() + static_cast<std::ptrdiff_t>(size));
    }
    const bool fits = std::all_of(
        model_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(size, model_.size())),
        model_.end(), [](std::byte byte) { return byte == std::byte{0}; });
    const auto done = device_->resize(size);
    // A page in the backing store can't be cut in two.
    const bool may_be_kept = GetParam().backing_blocks != 0 && size % kPageBytes != 0;
    ASSERT_TRUE(done ? fits : !fits || may_be_kept) << "size " << size;
    if (done) model_.resize(size);
    ASSERT_EQ(device_->size_bytes(), model_.size());
    ++(done ? resized_ : kept_);
  }

  // Changes nothing that can be read.
  void pass() {
    if (GetParam().type == DeviceType::ram) return;
    ASSERT_TRUE(device_->mark_idle(0));
    RecompressOptions options;
    options.pages = static_cast<PageClass>(below(4));
    options.threshold_bytes = below(2) == 0 ? 0 : static_cast<std::uint32_t>(below(3000));
    options.pages_max = 1 + below(200);
    options.priority = static_cast<unsigned>(below(2) * 3);
    ASSERT_TRUE(device_->recompress(options));
    if (GetParam().backing_blocks != 0) write_back();
  }

  void write_back() {
    WriteBackOptions options;
    options.pages = static_cast<PageClass>(below(5));
    const std::uint64_t pages = (model_.size() - 1) / kPageBytes + 1;
    for (std::uint64_t i = below(6); i > 0; --i) {
      const std::uint64_t first = below(pages);
      options.ranges.push_back({first, first + below(pages - first)});
    }
    const auto moved = device_->write_back(options);
    if (!moved) {
      ASSERT_EQ(moved.error().status, Status::no_space);
    }
  }

  void extents() {
    const auto [offset, length] = range();
    std::array<Extent, 64> runs;
    const std::size_t count = device_->extents(offset, length, runs);
    ASSERT_GT(count, 0U);
    std::uint64_t at = offset;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_GT(runs[i].length, 0U);
      ASSERT_TRUE(i == 0 || runs[i].hole != runs[i - 1].hole || runs[i].zero != runs[i - 1].zero);
      ASSERT_LE(at + runs[i].length, offset + length);
      for (std::uint64_t b = at; runs[i].zero && b < at + runs[i].length; ++b) {
        ASSERT_EQ(model_[b], std::byte{0});
      }
      at += runs[i].length;
    }
    if (count < runs.size()) {
      ASSERT_EQ(at, offset + length);
    }
  }

  void compare_all() {
    std::vector<std::byte> all(model_.size());
    ASSERT_EQ(device_->read(0, all), Status::ok);
    ASSERT_EQ(std::memcmp(all.data(), model_.data(), all.size()), 0);
    ASSERT_EQ(dynamic_cast<device::PagedDevice&>(*device_).check(), "");
    const Stats stats = device_->stats();
    if (GetParam().limit != 0) {
      ASSERT_LE(stats.mem_used_max, GetParam().limit);
    }
    ASSERT_LE(stats.mem_used_total, stats.mem_used_max);
  }

  std::mt19937_64 random_;
  std::vector<std::byte> model_, before_;
  std::unique_ptr<Device> device_;
  std::uint64_t refused_ = 0, resized_ = 0, kept_ = 0;
};

TEST_P(DeviceModel, EqualsAPlainArray) {
  const std::uint64_t seed = env_or("UZRAM_SEED", 20240611);
  SCOPED_TRACE("UZRAM_SEED=" + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  const std::uint64_t operations = env_or("UZRAM_MODEL_OPS", 4000);
  for (std::uint64_t i = 0; i < operations && !HasFatalFailure(); ++i) {
    const std::uint64_t choice = below(100);
    if (choice < 45) {
      write();
    } else if (choice < 75) {
      read();
    } else if (choice < 93) {
      zero();
    } else if (choice < 98) {
      extents();
    } else if (choice == 98) {
      device_->compact();
      pass();
    } else if (below(10) == 0) {
      device_->reset();
      std::fill(model_.begin(), model_.end(), std::byte{0});
    } else {
      resize();
    }
    if (i % 500 == 499) compare_all();
  }
  compare_all();
  if (GetParam().limit != 0) {
    EXPECT_GT(refused_, 0U) << "the limit was never met";
  }
  EXPECT_GT(resized_, 0U);
  EXPECT_GT(kept_, 0U);
  ASSERT_EQ(device_->discard(0, model_.size()), Status::ok);
  std::fill(model_.begin(), model_.end(), std::byte{0});
  compare_all();
  const Stats stats = device_->stats();
  EXPECT_EQ(stats.orig_data_size, 0U);
  EXPECT_EQ(stats.compr_data_size, 0U);
  EXPECT_EQ(stats.same_pages, 0U);
  EXPECT_EQ(stats.huge_pages, 0U);
  EXPECT_EQ(stats.mem_used_total, 0U);
  EXPECT_EQ(stats.bd_count, 0U);
  if (GetParam().backing_blocks != 0) {
    EXPECT_GT(stats.bd_reads, 0U);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const CodecInfo& codec : codecs()) {
    all.push_back({DeviceType::zram, codec.name, 4 << 20, 0});
  }
  all.push_back({DeviceType::zram, "lz4", (2 << 20) + 1537, 0});
  all.push_back({DeviceType::zram, "lz4", 64 << 20, 0});
  all.push_back({DeviceType::zram, "lz4", 8 << 20, 2 << 20});
  all.push_back({DeviceType::zram, "zstd", 8 << 20, 1 << 20});
  all.push_back({DeviceType::zram, "lz4", 4 << 20, 0, 300, false});
  all.push_back({DeviceType::zram, "lz4", (4 << 20) + 5, 0, 300, true});
  all.push_back({DeviceType::zram, "zstd", 16 << 20, 0, 8192, true});
  all.push_back({DeviceType::zram, "lz4", 8 << 20, 1 << 20, 500, true});
  all.push_back({DeviceType::ram, "", 4 << 20, 0});
  all.push_back({DeviceType::ram, "", (1 << 20) + 1, 0});
  all.push_back({DeviceType::ram, "", 8 << 20, 2 << 20});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceModel, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace uzram
