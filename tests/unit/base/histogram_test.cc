#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace uzram::base {
namespace {

constexpr std::uint64_t kGreatest = std::numeric_limits<std::uint64_t>::max();

TEST(Histogram, EmptyAnswersZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.max(), 0U);
  EXPECT_EQ(histogram.percentile(0.5), 0U);
  EXPECT_EQ(histogram.mean(), 0.0);
}

TEST(Histogram, OneValueIsEveryPercentile) {
  for (const std::uint64_t value : std::initializer_list<std::uint64_t>{
           0, 1, 63, 64, 127, 128, 129, 1000, 1'000'003, kGreatest - 1, kGreatest}) {
    Histogram histogram;
    histogram.record(value);
    for (const double fraction : {0.0, 0.5, 0.99, 1.0}) {
      EXPECT_EQ(histogram.percentile(fraction), value);
    }
    EXPECT_EQ(histogram.min(), value);
    EXPECT_EQ(histogram.max(), value);
  }
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(0.01), 1U);
  EXPECT_EQ(histogram.percentile(0.50), 50U);
  EXPECT_EQ(histogram.percentile(0.99), 99U);
  EXPECT_EQ(histogram.percentile(1.00), 100U);
  EXPECT_EQ(histogram.mean(), 50.5);
}

// Every percentile lies between the true one and 1/64 above it, at every magnitude.
TEST(Histogram, PercentilesAreWithinOneStep) {
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<std::uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);
    values.push_back(value);
    histogram.record(value);
  }
  std::sort(values.begin(), values.end());
  for (int permille = 1; permille <= 1000; ++permille) {
    const std::size_t rank = static_cast<std::size_t>(permille) * values.size() / 1000;
    const std::uint64_t truth = values[rank - 1];
    const std::uint64_t answer = histogram.percentile(permille / 1000.0);
    ASSERT_GE(answer, truth) << permille;
    ASSERT_LE(answer - truth, truth / 64) << permille;
  }
}

TEST(Histogram, TimesCountsAsOften) {
  Histogram once;
  Histogram often;
  for (int i = 0; i < 32; ++i) once.record(777);
  once.record(5);
  often.record(777, 32);
  often.record(5);
  often.record(9'999, 0);
  EXPECT_EQ(often.count(), once.count());
  EXPECT_EQ(often.mean(), once.mean());
  EXPECT_EQ(often.max(), once.max());
  EXPECT_EQ(often.min(), once.min());
  EXPECT_EQ(often.percentile(0.5), once.percentile(0.5));
}

TEST(Histogram, MergeIsTheSameAsOneHistogram) {
  std::mt19937_64 random(7);
  auto all = std::make_unique<Histogram>();
  std::vector<Histogram> parts(3);
  for (int i = 0; i < 9'000; ++i) {
    const std::uint64_t value = random() % 10'000'000;
    all->record(value);
    parts[static_cast<std::size_t>(i) % 3].record(value);
  }
  auto merged = std::make_unique<Histogram>();
  for (const Histogram& part : parts) merged->merge(part);
  merged->merge(Histogram());
  EXPECT_EQ(merged->count(), all->count());
  EXPECT_EQ(merged->min(), all->min());
  EXPECT_EQ(merged->max(), all->max());
  EXPECT_EQ(merged->mean(), all->mean());
  for (const double fraction : {0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    EXPECT_EQ(merged->percentile(fraction), all->percentile(fraction));
  }
}

}  // namespace
}  // namespace uzram::base
