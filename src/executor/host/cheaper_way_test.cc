#include "executor/host/cheaper_way.h"

#include <gtest/gtest.h>

namespace isotherm {
namespace {

// How many of so many batches went the second way, which costs this much.
int run(CheaperWay& way, int batches, double first, double second) {
  int count = 0;
  for (int i = 0; i < batches; ++i) {
    const bool takes_second = way.takes_second();
    count += takes_second ? 1 : 0;
    way.note(takes_second, takes_second ? second : first);
  }
  return count;
}

TEST(CheaperWay, MostBatchesGoTheWayThatTookLess) {
  CheaperWay cheap;
  EXPECT_GT(run(cheap, 10'000, 100, 60), 9'700);
  CheaperWay dear;
  const int some = run(dear, 10'000, 60, 100);
  EXPECT_GT(some, 50);
  EXPECT_LT(some, 200);
  CheaperWay very_dear;
  EXPECT_LT(run(very_dear, 10'000, 1, 1000), some / 3);
}

TEST(CheaperWay, FollowsCostsThatChange) {
  CheaperWay way;
  EXPECT_LT(run(way, 1'000, 50, 100), 100);
  EXPECT_GT(run(way, 2'000, 200, 100), 1'700);
  EXPECT_LT(run(way, 2'000, 50, 100), 300);
}

TEST(CheaperWay, TheFirstTimeOfAWayAndOneSlowBatchDoNotDecide) {
  CheaperWay way;
  way.note(false, 1e6);
  way.note(false, 100);
  EXPECT_TRUE(way.takes_second());
  way.note(true, 1e6);
  EXPECT_TRUE(way.takes_second());
  way.note(true, 60);
  way.note(true, 200);  // it had no core for a moment
  EXPECT_TRUE(way.takes_second());
}

}  // namespace
}  // namespace isotherm
