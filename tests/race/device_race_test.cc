// Several threads on the same few pages: every read sees one whole version, no acknowledged byte is
// lost, and afterwards the counters equal a fresh scan.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "device/paged_device.h"
#include "tests/support/fake_store.h"
#include "tests/support/pages.h"

namespace uzram {
namespace {

constexpr std::uint64_t kBlocks = 16;

struct Case {
  DeviceType type;
  std::uint64_t limit;
  bool backed = false;
};

class DeviceRace : public testing::TestWithParam<Case> {
 protected:
  DeviceRace() : device_(create_device(options_of(GetParam())).value()) {}

  static DeviceOptions options_of(const Case& c) {
    DeviceOptions options{
        .type = c.type, .size_bytes = std::uint64_t{64} << 20, .mem_limit_bytes = c.limit};
    if (c.type == DeviceType::zram) {
      options.recompress_codecs[0] = CodecChoice{"zstd", {.level = 1}};
    }
    if (c.backed) options.backing = std::make_shared<test::FakeStore>(96);
    options.compressed_writeback = c.backed && c.limit == 0;
    return options;
  }
  // One that finds nothing, or no room, is as good.
  void write_back() {
    if (GetParam().backed) static_cast<void>(device_->write_back({}));
  }

  void expect_sound() {
    EXPECT_EQ(dynamic_cast<device::PagedDevice&>(*device_).check(), "");
    EXPECT_EQ(device_->stats().failed_reads, 0U);
  }

  std::unique_ptr<Device> device_;
};

// A page that is one stamp over and over, which names its block, or that and noise made from the
// stamp.
test::Page stamped(std::uint64_t stamp, int style) {
  test::Page page;
  std::mt19937_64 noise(stamp);
  for (std::size_t i = 0; i < page.size(); i += 8) {
    const std::size_t noisy = style == 0 ? 0 : style == 1 ? 2048 : page.size();
    const std::uint64_t word = i > 0 && i < noisy ? noise() : stamp;
    std::memcpy(&page[i], &word, 8);
  }
  return page;
}

bool is_whole_version(const test::Page& page, std::uint64_t block) {
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, page.data(), 8);
  if (stamp == 0) return page == test::Page{};
  if (stamp >> 32 != block + 1) return false;
  return page == stamped(stamp, 0) || page == stamped(stamp, 1) || page == stamped(stamp, 2);
}

TEST_P(DeviceRace, ReadsAreOfOneWholeVersion) {
  std::atomic<std::uint64_t> running{6};
  std::atomic<std::uint64_t> torn{0}, generation{1};
  constexpr int kRounds = 6000;
  std::vector<std::thread> threads;
  const auto start = [&](unsigned seed, auto body) {
    threads.emplace_back([&, seed, body] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < kRounds; ++i) body(random);
      --running;
    });
  };
  for (unsigned t = 0; t < 3; ++t) {
    start(t, [&](std::mt19937_64& random) {
      const std::uint64_t block = random() % kBlocks;
      const auto page = stamped((block + 1) << 32 | generation++, static_cast<int>(random() % 3));
      const Status status = device_->write(block * kPageBytes, page);
      if (status != Status::ok && status != Status::no_space) ++torn;
    });
  }
  start(10, [&](std::mt19937_64& random) {
    if (device_->discard(random() % kBlocks * kPageBytes, kPageBytes) != Status::ok) ++torn;
  });
  start(11, [&](std::mt19937_64& random) {
    const std::uint64_t at = random() % kBlocks * kPageBytes;
    if (device_->write_zeroes(at, kPageBytes, random() % 2 == 0) != Status::ok) ++torn;
  });
  start(12, [&](std::mt19937_64& random) {
    const std::uint64_t block = random() % kBlocks;
    test::Page page;
    if (device_->read(block * kPageBytes, page) != Status::ok || !is_whole_version(page, block)) {
      ++torn;
    }
  });
  threads.emplace_back([&] {
    while (running.load() > 0) {
      device_->compact();
      write_back();
      const Stats stats = device_->stats();
      if ((stats.orig_data_size | stats.compr_data_size | stats.same_pages | stats.huge_pages) >>
              63 ||
          stats.mem_used_total > stats.mem_used_max) {
        ++torn;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn.load(), 0U);
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const auto page = stamped((block + 1) << 32 | generation++, 1);
    ASSERT_EQ(device_->write(block * kPageBytes, page), Status::ok);
    test::Page now;
    ASSERT_EQ(device_->read(block * kPageBytes, now), Status::ok);
    EXPECT_EQ(now, page);
  }
  expect_sound();
}

// A pass packs a copy with nothing locked: what was written meanwhile must win, whole pages and
// parts, and objects that compaction moves meanwhile are retired where they are by then.
TEST_P(DeviceRace, RecompressionMeetsWritersAndCompaction) {
  if (GetParam().type == DeviceType::ram) GTEST_SKIP() << "a ram device has no codec";
  std::atomic<std::uint64_t> running{2};
  std::atomic<std::uint64_t> wrong{0}, repacked{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 6000; ++i) {
        const std::uint64_t at = (random() % 8 * 2 + t) * kPageBytes;
        // Hex digits, which only the second codec packs.
        test::Page page;
        for (std::byte& byte : page)
          byte = static_cast<std::byte>("0123456789abcdef"[random() % 16]);
        if (device_->write(at, page) != Status::ok) ++wrong;
        const std::size_t part = random() % kPageBytes;
        page[part] = std::byte{'x'};
        if (device_->write(at + part, {&page[part], 1}) != Status::ok) ++wrong;
        if (random() % 16 == 0 && device_->discard(at, kPageBytes) == Status::ok) page = {};
        test::Page now;
        if (device_->read(at, now) != Status::ok || now != page) ++wrong;
      }
      --running;
    });
  }
  threads.emplace_back([&] {
    while (running.load() > 0) {
      repacked += device_->recompress({}).value_or(0);
      if (!device_->mark_idle(0)) ++wrong;
    }
  });
  threads.emplace_back([&] {
    while (running.load() > 0) {
      device_->compact();
      write_back();
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(repacked.load(), 0U);
  expect_sound();
}

// Eight writers of eight sectors of one page: a read-modify-write that isn't one step loses
// somebody's.
TEST_P(DeviceRace, WritersOfOnePageKeepTheirSectors) {
  constexpr std::uint64_t kSector = 512;
  constexpr int kRounds = 1500;
  std::atomic<std::uint64_t> lost{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kPageBytes / kSector; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < kRounds; ++i) {
        std::array<std::byte, kSector> out, now;
        if (i % 3 == 0) {
          out.fill(static_cast<std::byte>(i));
        } else {
          test::fill_random(random, out.data(), out.size());
        }
        if (device_->write(t * kSector, out) != Status::ok) ++lost;
        if (device_->read(t * kSector, now) != Status::ok || now != out) ++lost;
        if (i % 7 == 0) {
          if (device_->write_zeroes(t * kSector, kSector) != Status::ok) ++lost;
          if (device_->read(t * kSector, now) != Status::ok ||
              now[static_cast<std::uint64_t>(i) % kSector] != std::byte{0})
            ++lost;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost.load(), 0U);
  expect_sound();
}

// Half of the pages are on the store when they are read or changed in part.
TEST_P(DeviceRace, WriteBackMeetsReadersAndWritersOfParts) {
  if (!GetParam().backed) GTEST_SKIP() << "no backing store";
  std::atomic<std::uint64_t> running{3};
  std::atomic<std::uint64_t> wrong{0}, moved{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::array<test::Page, 8> mine{};
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t which = random() % 8, at = (which * 3 + t) * kPageBytes;
        test::Page now;
        if (device_->read(at, now) != Status::ok || now != mine[which]) ++wrong;
        test::Page next = mine[which];
        const std::size_t first = random() % kPageBytes, length = random() % (kPageBytes - first);
        if (random() % 3 == 0) {
          next = test::make_page(random, static_cast<test::PageKind>(random() % test::kPageKinds));
          if (device_->write(at, next) == Status::ok) mine[which] = next;
        } else {
          test::fill_random(random, next.data() + first, length);
          if (device_->write(at + first, {next.data() + first, length}) == Status::ok) {
            mine[which] = next;
          }
        }
      }
      --running;
    });
  }
  while (running.load() > 0) moved += device_->write_back({}).value_or(0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(moved.load(), 0U);
  expect_sound();
}

TEST_P(DeviceRace, ResetUnderLoadLeavesNothingBehind) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, rounds{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      while (!stop.load()) {
        ++rounds;
        const std::uint64_t block = random() % 4096;
        const auto page = stamped((block + 1) << 32 | (random() & 0xffff) | 1, static_cast<int>(t));
        const Status status = device_->write(block * kPageBytes, page);
        if (status != Status::ok && status != Status::no_space) ++wrong;
        test::Page now;
        if (device_->read(block * kPageBytes, now) != Status::ok || !is_whole_version(now, block))
          ++wrong;
      }
    });
  }
  if (GetParam().backed) {
    threads.emplace_back([&] {
      while (!stop.load()) write_back();
    });
  }
  while (rounds.load() < 20000) {
    device_->reset();
    device_->compact();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  expect_sound();
  device_->reset();
  EXPECT_EQ(device_->stats().mem_used_total, 0U);
  EXPECT_EQ(device_->stats().orig_data_size, 0U);
  expect_sound();
}

// Sparse spans and their emptying, while the same pages are overwritten and discarded.
TEST_P(DeviceRace, CompactionMeetsWritersAndFrees) {
  constexpr std::uint64_t kPagesUsed = 8192;
  std::atomic<int> running{2};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<std::uint64_t> last(kPagesUsed, 0);  // of the pages that are this thread's
      for (int i = 0; i < 20000; ++i) {
        const std::uint64_t page = random() % (kPagesUsed / 2) * 2 + t;
        test::Page now;
        if (device_->read(page * kPageBytes, now) != Status::ok) ++wrong;
        const auto expected =
            last[page] == 0 ? test::Page{} : stamped(last[page], static_cast<int>(last[page] % 3));
        if (now != expected) ++wrong;
        if (random() % 4 == 0) {
          if (device_->discard(page * kPageBytes, kPageBytes) != Status::ok) ++wrong;
          last[page] = 0;
          continue;
        }
        const std::uint64_t stamp = (page + 1) << 32 | static_cast<std::uint64_t>(i + 1);
        const Status status =
            device_->write(page * kPageBytes, stamped(stamp, static_cast<int>(stamp % 3)));
        if (status == Status::ok) last[page] = stamp;
      }
      --running;
    });
  }
  while (running.load() > 0) device_->compact();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  expect_sound();
}

// At the limit pages change their size in their old place, under compaction's eyes.
TEST_P(DeviceRace, CompactionMeetsPagesStoredOverTheirOld) {
  constexpr std::uint64_t kUsed = 2048;
  std::mt19937_64 random(1);
  std::vector<std::size_t> noise(kUsed, 0);
  const auto page_of = [](std::uint64_t page, std::size_t bytes) {
    test::Page data = stamped((page + 1) << 32 | bytes, 0);
    std::mt19937_64 of_page(page * 4096 + bytes);
    test::fill_random(of_page, data.data() + 8, bytes / 8 * 8);
    return data;
  };
  std::atomic<bool> stop{false};
  std::thread compactor([&] {
    while (!stop.load()) device_->compact();
  });
  std::uint64_t wrong = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t page = random() % kUsed;
    const std::size_t bytes = 1000 + random() % 3000;
    if (device_->write(page * kPageBytes, page_of(page, bytes)) == Status::ok) noise[page] = bytes;
    const std::uint64_t other = random() % kUsed;
    test::Page now;
    if (device_->read(other * kPageBytes, now) != Status::ok) ++wrong;
    if (now != (noise[other] == 0 ? test::Page{} : page_of(other, noise[other]))) ++wrong;
  }
  stop = true;
  compactor.join();
  EXPECT_EQ(wrong, 0U);
  expect_sound();
}

// The spare region goes back to the system while a reset empties the arena: what is used must not
// wrap.
TEST_P(DeviceRace, ResetMeetsTheSettlingOfTheDevice) {
  std::mt19937_64 random(2);
  std::atomic<bool> stop{false};
  std::thread settler([&] {
    while (!stop.load()) device_->compact();
  });
  std::vector<std::byte> data(std::size_t{1} << 20);
  test::fill_random(random, data.data(), data.size());
  for (int i = 0; i < 20; ++i) {
    for (std::uint64_t at = 0; at < 24; ++at) {
      if (device_->write(at << 20, data) != Status::ok) break;
    }
    ASSERT_EQ(device_->discard(0, std::uint64_t{24} << 20), Status::ok);
    device_->reset();
    EXPECT_LE(device_->stats().mem_used_total, std::uint64_t{4} << 20);
  }
  stop = true;
  settler.join();
  expect_sound();
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceRace,
    testing::Values(Case{DeviceType::zram, 0}, Case{DeviceType::zram, std::uint64_t{4} << 20},
                    Case{DeviceType::zram, 0, true},
                    Case{DeviceType::zram, std::uint64_t{4} << 20, true}, Case{DeviceType::ram, 0},
                    Case{DeviceType::ram, std::uint64_t{4} << 20}),
    [](const auto& param) {
      return std::string(param.param.type == DeviceType::ram ? "ram" : "zram") +
             (param.param.limit != 0 ? "_limited" : "") + (param.param.backed ? "_backed" : "");
    });

}  // namespace
}  // namespace uzram
