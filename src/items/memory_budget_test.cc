#include "items/memory_budget.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace isotherm::memory_budget_test {
namespace {

constexpr uint64_t cap = 64 << 20;
constexpr int64_t batch = 4 << 20;

TEST(MemoryBudgetTest, OfBatchesThatSeeTheSameRoomOneIsAdmitted) {
  MemoryBudget budget(cap);
  budget.items.fetch_add(static_cast<int64_t>(cap + budget.most_over()) - batch * 3 / 2);
  int64_t first = 0;
  int64_t second = 0;
  ASSERT_TRUE(budget.would_admit(batch));
  EXPECT_TRUE(budget.admit(batch, first));
  EXPECT_FALSE(budget.would_admit(batch));
  EXPECT_FALSE(budget.admit(batch, second));
  EXPECT_EQ(second, 0);
  // The first finds its bytes, though somebody who was not counted took some meanwhile.
  budget.items.fetch_add(batch);
  EXPECT_TRUE(budget.fits_over(batch));
  budget.items.fetch_sub(batch);
  budget.dismiss(first);
  EXPECT_EQ(first, 0);
  EXPECT_TRUE(budget.admit(batch, second));
  budget.dismiss(second);
}

TEST(MemoryBudgetTest, SmallBatchesFarFromTheEndCountNothing) {
  constexpr int64_t small = 1000;
  MemoryBudget budget(cap);
  budget.items.fetch_add(cap);
  int64_t admitted = 0;
  EXPECT_TRUE(budget.admit(small, admitted));
  EXPECT_EQ(admitted, 0);
  budget.items.fetch_add(static_cast<int64_t>(budget.most_over()) * 3 / 4);
  EXPECT_TRUE(budget.admit(small, admitted));
  EXPECT_EQ(admitted, small);
  budget.dismiss(admitted);
}

TEST(MemoryBudgetTest, WithoutACapAllAreAdmitted) {
  MemoryBudget budget(0);
  int64_t admitted = 0;
  EXPECT_TRUE(budget.admit(uint64_t{1} << 40, admitted));
  EXPECT_EQ(admitted, 0);
}

}  // namespace
}  // namespace isotherm::memory_budget_test
