#include "isotherm_bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace isotherm::bench::histogram_test {
namespace {

TEST(Histogram, EmptyAnswersZero) {
  Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.percentile(50), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
}

TEST(Histogram, BucketsTileTheRangeWithoutGaps) {
  uint64_t next = 0;
  for (size_t bucket = 0; bucket < Histogram::bucket_count; ++bucket) {
    EXPECT_EQ(Histogram::bucket_of(next), bucket);
    const uint64_t end = Histogram::bucket_end(bucket);
    EXPECT_EQ(Histogram::bucket_of(end), bucket);
    // No wider than 1/128 of its first value.
    if (bucket >= Histogram::linear_count) {
      EXPECT_LE((end - next) / Histogram::linear_count, next / 16384);
    }
    next = end + 1;
  }
  EXPECT_EQ(next, 0u);  // the last bucket ends at the largest value
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 0; value < 100; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(50), 49u);
  EXPECT_EQ(histogram.percentile(99), 98u);
  EXPECT_EQ(histogram.percentile(0), 0u);
  EXPECT_EQ(histogram.percentile(100), 99u);
}

TEST(Histogram, ErrorStaysWithinOne128th) {
  std::mt19937_64 random(7);
  for (int shape = 0; shape < 4; ++shape) {
    Histogram histogram;
    std::vector<uint64_t> values;
    for (int i = 0; i < 50'000; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      // Values from a few units to 2^(10..58), evenly over the exponents.
      const uint64_t value = static_cast<uint64_t>(std::exp2(u * (10 + 16 * shape)));
      values.push_back(value);
      histogram.record(value);
    }
    std::sort(values.begin(), values.end());
    for (double percent : {0.1, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
      const auto rank = static_cast<size_t>(std::ceil(percent / 100 * values.size()));
      const uint64_t exact = values[std::max<size_t>(rank, 1) - 1];
      const uint64_t answer = histogram.percentile(percent);
      EXPECT_GE(answer, exact);
      EXPECT_LE(answer, exact + exact / 128);
    }
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.min(), values.front());
  }
}

TEST(Histogram, ExtremeValues) {
  Histogram histogram;
  histogram.record(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(histogram.percentile(50), std::numeric_limits<uint64_t>::max());
  histogram.record(0, 99);
  EXPECT_EQ(histogram.count(), 100u);
  EXPECT_EQ(histogram.percentile(99), 0u);
}

TEST(Histogram, MergeEqualsRecordingTogether) {
  Histogram left, right, both;
  for (uint64_t value = 1; value < 100'000; value = value * 3 / 2 + 1) {
    (value % 2 == 0 ? left : right).record(value, value % 5 + 1);
    both.record(value, value % 5 + 1);
  }
  left.merge(right);
  EXPECT_EQ(left.count(), both.count());
  EXPECT_EQ(left.min(), both.min());
  EXPECT_EQ(left.max(), both.max());
  EXPECT_DOUBLE_EQ(left.mean(), both.mean());
  for (double percent : {1.0, 50.0, 99.0}) {
    EXPECT_EQ(left.percentile(percent), both.percentile(percent));
  }
  left.clear();
  EXPECT_EQ(left.count(), 0u);
}

}  // namespace
}  // namespace isotherm::bench::histogram_test
