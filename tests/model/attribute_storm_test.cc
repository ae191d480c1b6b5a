// Random writes to every attribute of a device, while others read and write its data.
//
// Whatever is written when, nothing crashes, no page reads as what it never was, and whenever the
// writers pause, the device's own check finds all laws kept. UZRAM_STORM_SECONDS sets how long it
// goes on, UZRAM_SEED which way.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/device_host.h"
#include "control/attributes.h"
#include "device/paged_device.h"
#include "tests/support/pages.h"
#include "tests/support/temp_dir.h"

namespace uzram {
namespace {

using Words = std::vector<std::string>;

std::uint64_t env_or(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class AttributeStorm : public testing::Test {
 protected:
  static constexpr std::uint64_t kPages = 2048;

  AttributeStorm() : seed_(env_or("UZRAM_SEED", std::random_device()())) {
    const std::string store = dir_.path() + "/store";
    std::ofstream(store).close();
    std::filesystem::resize_file(store, 600 * kPageBytes);
    vocabulary_ = {
        {"disksize", {"8M", "8M", "8M", "1M", "0", "x"}},
        {"resize", {"8M", "16M", "1M", "8388608T", "0"}},
        // Once in a while only, or nothing would ever be stored.
        {"reset", {"0", "0", "0", "0", "0", "0", "0", "0", "0", "1"}},
        {"comp_algorithm", {"lz4", "zstd", "deflate", "lz4hc", "none"}},
        {"algorithm_params",
         {"level=1", "level=3", "level=99999", "priority=1 level=2", "algo=zstd level=1",
          "deflate.winbits=12", "dict=/nowhere"}},
        {"recomp_algorithm",
         {"algo=zstd", "algo=deflate priority=2", "algo=lz4hc priority=3", "algo=zstd priority=9"}},
        {"recompress",
         {"type=idle", "type=huge", "type=huge_idle threshold=3000", "max_pages=50", "algo=zstd",
          "priority=2", "type=none"}},
        {"mem_limit", {"0", "0", "4M", "1M", "64K", "-1"}},
        {"mem_used_max", {"0", "1"}},
        {"idle", {"all", "0", "1", "never"}},
        {"compact", {"1", "now"}},
        {"backing_dev", {store, store, "none", "/nowhere", dir_.path()}},
        {"writeback",
         {"idle", "huge", "huge_idle", "incompressible", "type=huge", "page_index=5",
          "page_indexes=0-300", "page_indexes=100-2047", "page_indexes=9-1", "page_index=99999999",
          "some"}},
        {"writeback_limit", {"0", "100", "100000", "x"}},
        {"writeback_limit_enable", {"0", "0", "0", "1", "2"}},
        {"writeback_batch_size", {"1", "32", "4000000000", "0"}},
        {"compressed_writeback", {"0", "1", "2"}},
    };
    cli::StartOptions start;
    start.name = "storm";
    start.attachments = {{"nbd", "unix:" + dir_.path() + "/nbd"}};
    control::DeviceFiles files;
    files.record = dir_.path() + "/record";
    host_ = std::make_unique<cli::DeviceHost>(start, files, base::Fd(::eventfd(0, EFD_CLOEXEC)));
  }
  ~AttributeStorm() override { host_->shut_down(); }

  void write_attributes(std::uint64_t seed);
  void read_attributes(std::uint64_t seed);
  void use_device(std::uint64_t seed, std::uint64_t first, std::uint64_t count);
  void check_device();

  test::TempDir dir_;
  const std::uint64_t seed_;
  std::map<std::string, Words, std::less<>> vocabulary_;
  std::unique_ptr<cli::DeviceHost> host_;
  std::atomic<bool> stop_{false}, checking_{false};
  std::shared_mutex quiet_;  // shared by who writes attributes, for the one who checks
  std::atomic<std::uint64_t> accepted_{0}, refused_{0}, wrong_{0}, checks_{0}, compared_{0};
};

void AttributeStorm::write_attributes(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  while (!stop_.load()) {
    while (checking_.load()) std::this_thread::yield();
    const std::shared_lock<std::shared_mutex> going_on(quiet_);
    auto at = vocabulary_.begin();
    std::advance(at, random() % vocabulary_.size());
    const auto& [name, words] = *at;
    // An attribute that this build has not is refused as any unknown one is.
    const auto done = control::write_attribute(*host_, name, words[random() % words.size()]);
    ++(done ? accepted_ : refused_);
    if (!done && done.error().message.find('\n') != std::string::npos) ++wrong_;
  }
}

void AttributeStorm::read_attributes(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto all = control::attributes();
  while (!stop_.load()) {
    const control::Attribute& attribute = all[random() % all.size()];
    if (attribute.in_parts()) {
      for (std::optional<std::uint64_t> from = 0; from;) {
        from = control::read_attribute_part(*host_, attribute, *from).next;
      }
      continue;
    }
    const auto value = control::read_attribute(*host_, attribute.name);
    if (attribute.readable() != value.has_value()) ++wrong_;
  }
}

// Pages of its own, of which it knows what they must read on the device of now.
void AttributeStorm::use_device(std::uint64_t seed, std::uint64_t first, std::uint64_t count) {
  std::mt19937_64 random(seed);
  std::shared_ptr<Device> device;
  std::vector<test::Page> model;
  while (!stop_.load()) {
    const auto now = host_->device();
    if (now != device) {
      device = now;
      model.assign(count, {});
    }
    if (!device) {
      std::this_thread::yield();
      continue;
    }
    const std::uint64_t i = random() % count, at = (first + i) * kPageBytes;
    switch (random() % 4) {
      case 0: {
        const auto page =
            test::make_page(random, static_cast<test::PageKind>(random() % test::kPageKinds));
        const Status status = device->write(at, page);
        if (status == Status::ok) model[i] = page;
        break;
      }
      case 1: {
        const std::size_t from = random() % kPageBytes, length = random() % (kPageBytes - from);
        test::Page page = model[i];
        test::fill_random(random, page.data() + from, length);
        if (device->write(at + from, {page.data() + from, length}) == Status::ok) model[i] = page;
        break;
      }
      case 2: {
        test::Page page;
        const Status status = device->read(at, page);
        if (status == Status::out_of_range) break;
        ++compared_;
        const bool right = status == Status::ok && page == model[i];
        // A device that was dropped is empty; it is no longer shown then.
        if (!right && host_->device() == device) ++wrong_;
        break;
      }
      default:
        if (random() % 8 == 0 && device->discard(at, kPageBytes) == Status::ok) model[i] = {};
    }
  }
}

void AttributeStorm::check_device() {
  checking_ = true;  // or the writers would never all be out at the same time
  const std::unique_lock<std::shared_mutex> quiet(quiet_);
  checking_ = false;
  const auto device = host_->device();
  if (!device) return;
  const std::string broken = dynamic_cast<device::PagedDevice&>(*device).check();
  EXPECT_EQ(broken, "");
  const Stats stats = device->stats();
  EXPECT_LE(stats.mem_used_total, stats.mem_used_max);
  ++checks_;
}

TEST_F(AttributeStorm, EveryWritableAttributeTakesPart) {
  for (const control::Attribute& attribute : control::attributes()) {
    EXPECT_EQ(attribute.writable(), vocabulary_.count(attribute.name) == 1) << attribute.name;
  }
}

TEST_F(AttributeStorm, LeavesEveryLawKept) {
  SCOPED_TRACE("UZRAM_SEED=" + std::to_string(seed_));
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back([this, i] { write_attributes(seed_ + i); });
    threads.emplace_back([this, i] { use_device(seed_ + 10 + i, i * kPages / 2, kPages / 2); });
  }
  threads.emplace_back([this] { read_attributes(seed_ + 20); });
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(env_or("UZRAM_STORM_SECONDS", 30));
  for (std::uint64_t seen = 0; std::chrono::steady_clock::now() < end;) {
    // After some hundred writes.
    if (accepted_.load() + refused_.load() < seen + 300) {
      std::this_thread::yield();
      continue;
    }
    seen = accepted_.load() + refused_.load();
    check_device();
  }
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  check_device();
  EXPECT_EQ(wrong_.load(), 0U);
  EXPECT_GT(accepted_.load(), 100U);
  EXPECT_GT(refused_.load(), 100U);
  EXPECT_GT(compared_.load(), 1000U);
  EXPECT_GT(checks_.load(), 1U);
  std::printf("%llu writes accepted, %llu refused, %llu pages compared, %llu checks\n",
              static_cast<unsigned long long>(accepted_), static_cast<unsigned long long>(refused_),
              static_cast<unsigned long long>(compared_), static_cast<unsigned long long>(checks_));
}

}  // namespace
}  // namespace uzram
