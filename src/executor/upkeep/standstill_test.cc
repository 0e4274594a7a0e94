#include "executor/upkeep/standstill.h"

#include <gtest/gtest.h>

#include <chrono>

namespace isotherm::standstill_test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds longest{100};

class StandstillTest : public ::testing::Test {
 protected:
  bool lasts(int64_t height, milliseconds at, bool held_back = true) {
    return standstill_.lasts(height, held_back, longest, Standstill::Clock::time_point(at));
  }

  Standstill standstill_;
};

// A look that comes long after the one before may be the first that sees what has come meanwhile.
TEST_F(StandstillTest, WhoHadNoCoreLooksOnceMore) {
  EXPECT_FALSE(lasts(0, milliseconds(0)));
  EXPECT_FALSE(lasts(0, milliseconds(1)));
  EXPECT_FALSE(lasts(0, milliseconds(5000)));
  EXPECT_FALSE(lasts(1, milliseconds(5001)));
  EXPECT_FALSE(lasts(1, milliseconds(9000)));
  EXPECT_TRUE(lasts(1, milliseconds(9001)));
}

TEST_F(StandstillTest, EndsWhenItComesNearer) {
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(lasts(i, milliseconds(i * 99)));
  EXPECT_FALSE(lasts(49, milliseconds(49 * 99 + 100)));
  EXPECT_FALSE(lasts(48, milliseconds(49 * 99 + 101)));
  EXPECT_TRUE(lasts(48, milliseconds(49 * 99 + 102)));
}

TEST_F(StandstillTest, TriesCountWhereNobodyHoldsItBack) {
  EXPECT_FALSE(lasts(0, milliseconds(0), false));
  for (uint32_t i = 0; i < Standstill::most_vain_tries; ++i) {
    EXPECT_FALSE(lasts(0, milliseconds(5000), false));
  }
  EXPECT_TRUE(lasts(0, milliseconds(5000), false));
}

TEST_F(StandstillTest, WhatWasGivenUpIsTriedOnceMore) {
  standstill_.was_given_up_at(5, Standstill::Clock::time_point(milliseconds(0)));
  EXPECT_TRUE(lasts(5, milliseconds(0), false));
  EXPECT_FALSE(lasts(6, milliseconds(0), false)) << "it helps";
  EXPECT_FALSE(lasts(6, milliseconds(0), false));
  standstill_.was_given_up_at(6, Standstill::Clock::time_point(milliseconds(10)));
  EXPECT_FALSE(lasts(6, milliseconds(20))) << "readers that hold it back are waited for";
}

}  // namespace
}  // namespace isotherm::standstill_test
