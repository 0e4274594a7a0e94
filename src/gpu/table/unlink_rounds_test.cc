// When segments are gone over for lines to unlink, and which.
#include "gpu/table/unlink_rounds.h"

#include <gtest/gtest.h>

namespace isotherm::unlink_rounds_test {
namespace {

constexpr uint64_t segments = 10;
constexpr uint64_t lines_each = 1 << 13;
constexpr uint64_t rows_of_a_segment = lines_each / UnlinkRounds::lines_per_row;

class UnlinkRoundsTest : public ::testing::Test {
 protected:
  // Goes over what a part of `rows` rows has to, which gives back `gives` lines.
  UnlinkRounds::Stretch go(uint64_t rows, uint64_t gives) {
    const UnlinkRounds::Stretch stretch = rounds_.begin(segments, lines_each, rows, totals_);
    if (stretch.count == 0) return stretch;
    totals_.linked_lines -= gives;
    rounds_.end(totals_);
    return stretch;
  }
  void expect_rests(uint64_t rows) { EXPECT_EQ(go(rows, 0).count, 0u); }
  // A whole round that gives so many lines in all.
  void go_round(uint64_t gives) {
    for (uint64_t i = 0; i < segments; ++i) {
      EXPECT_EQ(go(rows_of_a_segment, i == segments / 2 ? gives : 0).count, 1u) << i;
    }
  }

  UnlinkRounds rounds_;
  TableTotals totals_{1'000'000, 0, 5000};
};

TEST_F(UnlinkRoundsTest, TheHandGoesRoundInProportionToRows) {
  for (const uint64_t first : {0, 3, 6, 9, 2}) {
    const UnlinkRounds::Stretch stretch = go(rows_of_a_segment * 3, 1);
    EXPECT_EQ(stretch.first, first);
    EXPECT_EQ(stretch.count, 3u);
  }
}

TEST_F(UnlinkRoundsTest, FewRowsPayForSomeAndManyForAllAtMost) {
  EXPECT_EQ(go(1, 1).count, 1u);
  const UnlinkRounds::Stretch all = go(rows_of_a_segment * segments * 2, 1);
  EXPECT_EQ(all.first, 1u);
  EXPECT_EQ(all.count, segments);
  EXPECT_EQ(rounds_.begin(segments * 1000, 16, 1, totals_).count, UnlinkRounds::least_lines / 16);
}

TEST_F(UnlinkRoundsTest, FewerSegmentsThanTheHandHasPassed) {
  go(rows_of_a_segment * 8, 1);
  const UnlinkRounds::Stretch stretch = rounds_.begin(3, lines_each, rows_of_a_segment, totals_);
  EXPECT_LT(stretch.first, 3u);
  EXPECT_EQ(stretch.count, 1u);
}

TEST_F(UnlinkRoundsTest, GoesOnWhileARoundGivesSomething) {
  for (int round = 0; round < 5; ++round) go_round(1);
  EXPECT_EQ(go(1, 0).count, 1u);
}

TEST_F(UnlinkRoundsTest, RestsAfterARoundThatGaveNothing) {
  go_round(1);
  go_round(0);
  constexpr uint64_t lines = segments * lines_each;
  expect_rests(lines / 2);
  expect_rests(lines / 2 - 1);
  EXPECT_NE(go(1, 0).count, 0u);  // as many rows as lines
}

TEST_F(UnlinkRoundsTest, ErasedEntriesEndTheRest) {
  go_round(0);
  expect_rests(1);
  totals_.entries -= segments * lines_each / 8;
  expect_rests(1);
  totals_.entries -= 1;
  EXPECT_NE(go(1, 0).count, 0u);
  // It is a new round, which may give nothing for as long.
  for (uint64_t i = 1; i < segments; ++i) EXPECT_EQ(go(rows_of_a_segment, 0).count, 1u);
  expect_rests(1);
}

}  // namespace
}  // namespace isotherm::unlink_rounds_test
