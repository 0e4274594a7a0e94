#include "net/copy_ration.h"

#include <gtest/gtest.h>

namespace isotherm::net::copy_ration_test::copy_ration_test {
namespace {

// How many requests a turn takes; each copies so many bytes.
uint64_t turn(CopyRation& ration, uint64_t most, uint64_t bytes) {
  while (ration.taken() < most && ration.take()) {
  }
  const uint64_t taken = ration.taken();
  ration.learn(taken * bytes);
  return taken;
}

TEST(CopyRation, OfLongValuesIsSmallAtOnce) {
  CopyRation ration;
  EXPECT_EQ(turn(ration, 1'000'000, 8 << 20), 8u);
  EXPECT_EQ(turn(ration, 1'000'000, 8 << 20), 2u);
  // Longer than all there is: one at a time.
  EXPECT_EQ(turn(ration, 1'000'000, 100 << 20), 2u);
  EXPECT_EQ(turn(ration, 1'000'000, 100 << 20), 1u);
}

TEST(CopyRation, OfShortValuesGrowsWithoutLimit) {
  CopyRation ration;
  uint64_t before = 0;
  for (int i = 0; i < 150; ++i) {
    const uint64_t taken = turn(ration, 1'000'000, 0);
    EXPECT_GE(taken, before);
    before = taken;
  }
  EXPECT_EQ(before, 1'000'000u);
  EXPECT_LT(turn(ration, 100, 4 << 20), 101u);
  EXPECT_EQ(turn(ration, 1'000'000, 4 << 20), 4u);
}

TEST(CopyRation, CountsWhatItIsTold) {
  CopyRation ration;
  ration.take();
  ration.note(16 << 20);
  ration.learn(0);
  EXPECT_FALSE(ration.take());
  ration.learn(0);
  // It forgets: an eighth less each turn that copied nothing long.
  EXPECT_FALSE(ration.take());
  for (int i = 0; i < 8; ++i) {
    ration.learn(0);
    ration.take();
  }
  ration.learn(0);
  EXPECT_TRUE(ration.take());
}

}  // namespace
}  // namespace isotherm::net::copy_ration_test::copy_ration_test
