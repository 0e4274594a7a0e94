#include "items/size_classes.h"

#include <gtest/gtest.h>

namespace isotherm::size_classes::size_classes_test {
namespace {

TEST(SizeClasses, GrowInSmallAlignedSteps) {
  EXPECT_EQ(bytes_of(0), smallest);
  EXPECT_EQ(bytes_of(count - 1), largest);
  for (uint32_t c = 0; c < count; ++c) {
    EXPECT_EQ(bytes_of(c) % grain, 0u);
    EXPECT_EQ(capacity_of(c), chunk_bytes / bytes_of(c));
    if (c == 0) continue;
    const uint64_t step = bytes_of(c) - bytes_of(c - 1);
    EXPECT_GT(bytes_of(c), bytes_of(c - 1));
    // One eighth, and what raising a size to fill its chunk adds.
    const uint64_t most = bytes_of(c) <= 240 ? 16 : bytes_of(c - 1) / 6;
    if (bytes_of(c) <= 4096) {
      EXPECT_LE(step, most);
    }
  }
}

TEST(SizeClasses, EverySizeGetsTheSmallestClassThatHoldsIt) {
  for (uint64_t bytes = 0; bytes <= largest; ++bytes) {
    const uint32_t c = class_of(bytes);
    ASSERT_LT(c, count);
    ASSERT_GE(bytes_of(c), bytes);
    ASSERT_TRUE(c == 0 || bytes_of(c - 1) < bytes);
  }
}

TEST(SizeClasses, AnItemOfSixteenAndThirtyTwoBytesFillsItsClass) {
  EXPECT_EQ(bytes_of(class_of(16 + 16 + 32)), 64u);
}

TEST(SizeClasses, NumbersAreExact) {
  for (uint32_t c = 0; c < count; ++c) {
    for (uint32_t i = 0; i < capacity_of(c); ++i) {
      ASSERT_EQ(number_of(c, i * bytes_of(c)), i) << c;
      // Not only starts: any offset divides exactly.
      ASSERT_EQ(number_of(c, (i + 1) * bytes_of(c) - 1), i) << c;
    }
  }
}

}  // namespace
}  // namespace isotherm::size_classes::size_classes_test
