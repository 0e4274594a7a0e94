#include "items/probation.h"

#include <gtest/gtest.h>

namespace isotherm::probation_test {
namespace {

constexpr uint64_t hash_of(uint64_t key) { return (key + 1) * 0x9E3779B97F4A7C15; }

struct ProbationTest : ::testing::Test {
  MemoryBudget budget{0};
};

TEST_F(ProbationTest, RemembersNothingBeforeItKnowsHowManyItemsThereAre) {
  Probation probation(budget, uint64_t{1} << 40);
  probation.note_evicted(hash_of(1), false);
  EXPECT_FALSE(probation.comes_back(hash_of(1)));
  EXPECT_EQ(budget.items.load(), 0);
}

TEST_F(ProbationTest, AKeyComesBackOnce) {
  Probation probation(budget, uint64_t{1} << 40);
  probation.fit(1000);
  probation.note_evicted(hash_of(1), false);
  EXPECT_FALSE(probation.comes_back(hash_of(2)));
  EXPECT_TRUE(probation.comes_back(hash_of(1)));
  EXPECT_FALSE(probation.comes_back(hash_of(1)));
}

TEST_F(ProbationTest, TheKindThatComesBackGetsMoreMemory) {
  Probation probation(budget, uint64_t{1} << 40);
  probation.fit(1000);
  const auto come_back = [&](bool proven, int times) {
    for (int i = 0; i < times; ++i) {
      probation.note_evicted(hash_of(1), proven);
      EXPECT_TRUE(probation.comes_back(hash_of(1)));
    }
  };
  const uint32_t first = probation.permille();
  come_back(false, 10);
  const uint32_t more = probation.permille();
  EXPECT_GT(more, first);
  EXPECT_TRUE(probation.exceeds(more + 1, 1000));
  EXPECT_FALSE(probation.exceeds(more, 1000));
  come_back(true, 5);
  EXPECT_LT(probation.permille(), more);
  EXPECT_GT(probation.permille(), first);
  // Neither kind is ever left without memory.
  come_back(true, 1000);
  EXPECT_GE(probation.permille(), 50u);
  come_back(false, 1000);
  EXPECT_LE(probation.permille(), 950u);
}

TEST_F(ProbationTest, TheBudgetCountsTheEntriesUntilTheEnd) {
  {
    Probation probation(budget, uint64_t{1} << 40);
    probation.fit(100'000);
    const int64_t much = budget.items.load();
    EXPECT_GT(much, 0);
    EXPECT_LE(much, 100'000);  // a byte an item
    probation.fit(10);
    EXPECT_EQ(budget.items.load(), much);
    probation.fit(100'000);
    EXPECT_EQ(budget.items.load(), much);
    probation.note_evicted(hash_of(7), true);
    EXPECT_TRUE(probation.comes_back(hash_of(7)));
  }
  EXPECT_EQ(budget.items.load(), 0);
}

}  // namespace
}  // namespace isotherm::probation_test
