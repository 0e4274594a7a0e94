#include "base/reserve_more.h"

#include <gtest/gtest.h>

#include <vector>

namespace isotherm::reserve_more_test {
namespace {

TEST(ReserveMore, ElementsThatComeSomeAtATimeAreSeldomMoved) {
  std::vector<int> all;
  int moves = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int* const before = all.data();
    reserve_more(all, 3);
    moves += all.data() != before ? 1 : 0;
    const int* const there = all.data();
    all.insert(all.end(), 3, i);
    ASSERT_EQ(all.data(), there);
  }
  EXPECT_LT(moves, 20);
}

TEST(ReserveMore, WhatHasRoomStays) {
  std::vector<int> all;
  reserve_more(all, 100);
  EXPECT_EQ(all.capacity(), 100u);
  reserve_more(all, 100);
  EXPECT_EQ(all.capacity(), 100u);
}

}  // namespace
}  // namespace isotherm::reserve_more_test
