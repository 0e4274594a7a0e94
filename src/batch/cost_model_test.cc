#include "batch/cost_model.h"

#include <gtest/gtest.h>

namespace isotherm::cost_model_test {
namespace {

TEST(CostModel, SaysNothingWithoutSamples) {
  const CostModel model;
  EXPECT_EQ(model.fit().fixed_ns, 0);
  EXPECT_EQ(model.fit().row_ns, 0);
}

TEST(CostModel, FindsTheLineThroughExactTimes) {
  CostModel model;
  for (const uint64_t rows : {1, 512, 4096, 100'000, 1 << 20}) {
    model.add(rows, 9500 + 0.25 * static_cast<double>(rows));
  }
  EXPECT_NEAR(model.fit().fixed_ns, 9500, 1e-6);
  EXPECT_NEAR(model.fit().row_ns, 0.25, 1e-9);
}

TEST(CostModel, MinimisesTheSquaresOfTheRest) {
  CostModel model;
  // About y = 10 + 2 x, off by 1, -2, 1: orthogonal to both 1 and x, so the line stays.
  model.add(10, 30 + 1);
  model.add(20, 50 - 2);
  model.add(30, 70 + 1);
  EXPECT_NEAR(model.fit().fixed_ns, 10, 1e-9);
  EXPECT_NEAR(model.fit().row_ns, 2, 1e-9);
}

TEST(CostModel, TakesOneSizeForALevelLine) {
  CostModel model;
  for (const double took : {100.0, 200.0, 300.0}) model.add(64, took);
  EXPECT_DOUBLE_EQ(model.fit().fixed_ns, 200);
  EXPECT_EQ(model.fit().row_ns, 0);
}

TEST(CostModel, ForgetsWhatIsLongAgo) {
  CostModel all, latest(0.9);
  for (CostModel* model : {&all, &latest}) {
    model->add(1, 5'000'000);
    for (uint64_t rows = 0; rows < 400; ++rows) {
      model->add(rows, 9500 + 0.25 * static_cast<double>(rows));
    }
  }
  EXPECT_GT(all.fit().fixed_ns, 20'000);
  EXPECT_NEAR(latest.fit().fixed_ns, 9500, 1e-3);
  EXPECT_NEAR(latest.fit().row_ns, 0.25, 1e-6);
}

TEST(CostModel, NeverSaysThatRowsSaveTime) {
  CostModel model;
  model.add(10, 300);
  model.add(20, 100);
  EXPECT_DOUBLE_EQ(model.fit().fixed_ns, 200);
  EXPECT_EQ(model.fit().row_ns, 0);
}

TEST(CostModel, NeverSaysThatABatchCostsLessThanItsRows) {
  CostModel model;
  model.add(10, 10);
  model.add(20, 40);
  model.add(30, 90);
  const BatchCost cost = model.fit();
  EXPECT_EQ(cost.fixed_ns, 0);
  // The best line through zero: sum of x y over sum of x x.
  EXPECT_NEAR(cost.row_ns, (10.0 * 10 + 20 * 40 + 30 * 90) / (100 + 400 + 900), 1e-9);
}

}  // namespace
}  // namespace isotherm::cost_model_test
