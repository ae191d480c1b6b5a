#include "bench/verify.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "bench/crc32c.h"
#include "bench/run.h"
#include "tests/support/fake_device.h"

namespace uzram::bench {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, BothPathsAgreeAndContinue) {
  Random random(3);
  std::vector<std::byte> bytes(777);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (std::size_t length = 0; length <= bytes.size(); length += 7) {
    const std::span<const std::byte> part(bytes.data(), length);
    ASSERT_EQ(crc32c(part), crc32c_portable(part));
    ASSERT_EQ(crc32c(part.subspan(length / 3), crc32c(part.first(length / 3))), crc32c(part));
  }
}

TEST(VerifyRecord, EveryFlippedBitIsFound) {
  std::vector<std::byte> record(512, std::byte{0x5a});
  stamp_record(record, 8192, 3);
  ASSERT_FALSE(check_record(record, 8192, 3));
  for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
    record[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_TRUE(check_record(record, 8192, 3)) << bit;
    record[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

TEST(VerifyRecord, SaysWhatIsWrong) {
  std::vector<std::byte> record(512, std::byte{1});
  stamp_record(record, 8192, 3);
  EXPECT_EQ(check_record(record, 4096, 3)->message,
            "verify: offset 4096: expected its own record, found that of offset 8192");
  EXPECT_EQ(check_record(record, 8192, 4)->message,
            "verify: offset 8192: expected generation 4, found generation 3");
  EXPECT_EQ(
      check_record(record, 8192, 0)->message,
      "verify: offset 8192: expected zeroes, it was never written, found other bytes from 1 on");
  record[300] = std::byte{2};
  EXPECT_NE(check_record(record, 8192, 3)->message.find("expected crc32c 0x"), std::string::npos);
  EXPECT_FALSE(check_record(std::vector<std::byte>(512), 8192, 0));
}

// A device that may tamper with a request after, or instead of, doing it.
class TamperedDevice final : public Device {
 public:
  // True: the device below must not see the request.
  using Tamper = std::function<bool(Device& below, Request& request)>;
  TamperedDevice(Device& below, Tamper tamper) : below_(below), tamper_(std::move(tamper)) {}

  void submit(std::span<Request> batch) noexcept override {
    for (Request& request : batch) {
      if (!tamper_(below_, request)) below_.submit({&request, 1});
    }
  }
  std::size_t extents(std::uint64_t offset, std::uint64_t length,
                      std::span<Extent> out) const noexcept override {
    return below_.extents(offset, length, out);
  }
  void reset() noexcept override { below_.reset(); }
  Stats stats() const noexcept override { return below_.stats(); }
  void set_mem_limit(std::uint64_t bytes) noexcept override { below_.set_mem_limit(bytes); }
  void reset_mem_used_max() noexcept override { below_.reset_mem_used_max(); }
  void compact() noexcept override { below_.compact(); }
  const DeviceOptions& options() const noexcept override { return below_.options(); }

 private:
  Device& below_;
  const Tamper tamper_;
};

class VerifyProfile : public testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 1 << 20;

  Result<RunResult> run(Options options, const TamperedDevice::Tamper& tamper) {
    options.device.size_bytes = kSize;
    test::FakeDevice below(kSize);
    TamperedDevice device(below, tamper);
    return run_profile(options, Profile::verify, pages_, device);
  }
  std::string error_of(const TamperedDevice::Tamper& tamper) {
    const Result<RunResult> result = run({}, tamper);
    return result ? "" : result.error().message;
  }

  SourcePages pages_ = SourcePages::make({}, 1).value();
};

bool untouched(Device&, Request&) {
  return false;
}

TEST_F(VerifyProfile, PassesOnASoundDevice) {
  for (const unsigned threads : {1U, 4U}) {
    for (const unsigned batch : {1U, 32U}) {
      for (const std::uint64_t record : {512U, 4096U, 12288U, 5000U}) {
        Options options;
        options.threads = threads;
        options.batch = batch;
        options.record_bytes = record;
        const Result<RunResult> result = run(options, untouched);
        ASSERT_TRUE(result) << result.error().message;
        EXPECT_EQ(result->measured.requests, kSize / record * 2);
        EXPECT_EQ(result->measured.latency.count(), kSize / record * 2);
      }
    }
  }
}

TEST_F(VerifyProfile, GoesOnForItsTime) {
  Options options;
  options.seconds = 1;
  const Result<RunResult> result = run(options, untouched);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->measured.requests, kSize / 4096 * 4);
  EXPECT_GE(result->measured.seconds, 0.99);
}

TEST_F(VerifyProfile, FindsAChangedByte) {
  const std::string error = error_of([](Device& below, Request& request) {
    below.submit({&request, 1});
    if (request.op == Op::read && request.offset == 40960) request.data[4000] ^= std::byte{1};
    return true;
  });
  EXPECT_NE(error.find("verify: offset 40960: expected crc32c 0x"), std::string::npos) << error;
}

TEST_F(VerifyProfile, FindsALostWrite) {
  const std::string error = error_of([](Device&, Request& request) {
    const bool lose = request.op == Op::write && request.offset == 4096;
    if (lose) request.status = Status::ok;
    return lose;
  });
  EXPECT_NE(error.find("verify: offset 4096: expected"), std::string::npos) << error;
}

TEST_F(VerifyProfile, FindsAMisplacedWrite) {
  const std::string error = error_of([](Device& below, Request& request) {
    if (request.op != Op::write || request.offset != 8192) return false;
    request.offset = 4096;
    below.submit({&request, 1});
    return true;
  });
  EXPECT_NE(error.find(": expected"), std::string::npos) << error;
}

TEST_F(VerifyProfile, ReportsAFailedRequest) {
  test::FakeDevice below(kSize);
  below.fail_next(Op::write, Status::no_space);
  Options options;
  options.device.size_bytes = kSize;
  const Result<RunResult> result = run_profile(options, Profile::verify, pages_, below);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().status, Status::no_space);
  EXPECT_NE(result.error().message.find("verify: write of 4096 bytes at"), std::string::npos);
}

}  // namespace
}  // namespace uzram::bench
