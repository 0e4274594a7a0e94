#include "executor/device/round_schedule.h"

#include <gtest/gtest.h>

namespace isotherm::round_schedule_test {
namespace {

RoundSchedule of(Scheduling policy, uint64_t rows, int64_t wait_ns) {
  return RoundSchedule(RoundOptions{policy, rows, wait_ns});
}

TEST(RoundScheduleTest, DefaultsAreFilledIn) {
  EXPECT_FALSE(RoundSchedule().waits());
  const RoundSchedule fixed = of(Scheduling::fixed_size, 0, 0);
  EXPECT_TRUE(fixed.waits());
  EXPECT_EQ(fixed.options().rows, 512u);
  EXPECT_EQ(fixed.options().wait_ns, 100'000);
  EXPECT_EQ(of(Scheduling::periodic, 0, 0).options().rows, RoundSchedule::most_rows);
}

TEST(RoundScheduleTest, AFixedSizeCountsFromTheFirstMember) {
  const RoundSchedule fixed = of(Scheduling::fixed_size, 10, 500);
  EXPECT_FALSE(fixed.enough(9));
  EXPECT_TRUE(fixed.enough(10));
  EXPECT_EQ(fixed.latest(1000, 900), 1500);
  EXPECT_EQ(fixed.latest(1000, RoundSchedule::never), 1500);
}

TEST(RoundScheduleTest, ACycleCountsFromTheRoundBefore) {
  const RoundSchedule periodic = of(Scheduling::periodic, 0, 500);
  EXPECT_EQ(periodic.latest(1000, 900), 1400);
  EXPECT_EQ(periodic.latest(1000, 400), 900) << "over already";
  EXPECT_EQ(periodic.latest(1000, RoundSchedule::never), 1000);
}

TEST(RoundScheduleTest, RefusesWhatCannotWork) {
  EXPECT_THROW(of(Scheduling::greedy, 1, 0), std::invalid_argument);
  EXPECT_THROW(of(Scheduling::greedy, 0, 1), std::invalid_argument);
  EXPECT_THROW(of(Scheduling::adaptive, 0, 0), std::invalid_argument);
  EXPECT_THROW(of(Scheduling{77}, 0, 0), std::invalid_argument);
  for (const Scheduling policy : {Scheduling::fixed_size, Scheduling::periodic}) {
    EXPECT_THROW(of(policy, RoundSchedule::most_rows + 1, 0), std::invalid_argument);
    EXPECT_THROW(of(policy, 0, -1), std::invalid_argument);
    EXPECT_THROW(of(policy, 0, 1'000'000'001), std::invalid_argument);
    EXPECT_NO_THROW(of(policy, RoundSchedule::most_rows, 1'000'000'000));
  }
}

}  // namespace
}  // namespace isotherm::round_schedule_test
