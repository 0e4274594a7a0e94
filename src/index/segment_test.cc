#include "index/segment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace isotherm::segment_test {
namespace {

TEST(SplitThreshold, SixtyFourPhasesSpreadOverAFactorOfTwo) {
  constexpr int depth = 8;
  std::set<uint32_t> thresholds;
  for (uint64_t prefix = 0; prefix < uint64_t{1} << depth; ++prefix) {
    thresholds.insert(split_threshold(prefix, depth));
  }
  ASSERT_EQ(thresholds.size(), 64u);
  // Even in their logarithm.
  for (auto at = thresholds.begin(); std::next(at) != thresholds.end(); ++at) {
    const double ratio = static_cast<double>(*std::next(at)) / *at;
    EXPECT_NEAR(ratio, std::exp2(1.0 / 64), 1e-3);
  }
  EXPECT_LT(*thresholds.rbegin(), 2 * *thresholds.begin());
}

TEST(SplitThreshold, TheTopBitsOfThePrefixDecide) {
  for (uint64_t prefix = 0; prefix < 64; ++prefix) {
    EXPECT_EQ(split_threshold(prefix, 6), split_threshold(prefix << 10 | 0x2A5, 16));
  }
}

TEST(SplitThreshold, ASegmentHoldsWhatItMayBeforeItSplits) {
  // Every child starts below its threshold, even where all entries go one way but a few.
  for (int depth = 0; depth < 12; ++depth) {
    for (uint64_t prefix = 0; prefix < uint64_t{1} << depth; ++prefix) {
      const uint32_t at = split_threshold(prefix, depth);
      EXPECT_GT(at, segment_lines * 5);
      EXPECT_LT(at, segment_lines * 11);
    }
  }
}

}  // namespace
}  // namespace isotherm::segment_test
