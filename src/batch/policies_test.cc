// Policies with a turned clock: one test for each rule.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>

#include "batch/make_policy.h"

namespace isotherm::policies_test {
namespace {

constexpr int64_t us = 1000;
constexpr int64_t ms = 1000 * us;

WaitingRows reads_waiting(int64_t now, uint64_t reads, int64_t age = 0, uint32_t on_device = 0) {
  WaitingRows waiting;
  waiting.now = now;
  waiting.reads = reads;
  waiting.read_age = age;
  waiting.on_device = on_device;
  return waiting;
}
WaitingRows writes_waiting(int64_t now, uint64_t writes, int64_t age = 0) {
  WaitingRows waiting;
  waiting.now = now;
  waiting.writes = writes;
  waiting.write_age = age;
  return waiting;
}

std::string refusal(const SchedulingOptions& options) {
  try {
    make_policy(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// Greedy.

TEST(GreedyPolicy, SendsWhatIsThereWhenTheBudgetIsSpent) {
  GreedyPolicy policy({1000, 3, 2});
  for (int batch = 0; batch < 2; ++batch) {
    for (int look = 1; look < 3; ++look) {
      const BatchDecision decision = policy.decide(reads_waiting(look, 10));
      EXPECT_EQ(decision.reads, 0u);
      EXPECT_EQ(decision.again, look);
    }
    EXPECT_EQ(policy.decide(reads_waiting(3, 17)).reads, 17u);
  }
}

TEST(GreedyPolicy, SendsAFullBatchAtTheFirstLook) {
  GreedyPolicy policy({1000, 100, 2});
  EXPECT_EQ(policy.decide(reads_waiting(1, 1500)).reads, 1000u);
  WaitingRows waiting = reads_waiting(2, 600);
  waiting.writes = 600;
  const BatchDecision decision = policy.decide(waiting);
  EXPECT_EQ(decision.reads, 600u);
  EXPECT_EQ(decision.writes, 400u);
}

TEST(GreedyPolicy, GathersWhileTheDeviceHasEnough) {
  GreedyPolicy policy({1000, 2, 3});
  for (int look = 0; look < 5; ++look) {
    const BatchDecision decision = policy.decide(reads_waiting(look, 5000, 0, 3));
    EXPECT_EQ(decision.reads, 0u);
    EXPECT_EQ(decision.again, BatchDecision::never);
  }
  // Those looks were not counted.
  EXPECT_EQ(policy.decide(reads_waiting(9, 10, 0, 2)).reads, 0u);
  EXPECT_EQ(policy.decide(reads_waiting(10, 10, 0, 2)).reads, 10u);
}

// Fixed size.

TEST(FixedSizePolicy, SendsFullBatchesOneAfterAnother) {
  FixedSizePolicy policy({512, 100 * us});
  EXPECT_EQ(policy.decide(reads_waiting(0, 511)).reads, 0u);
  EXPECT_EQ(policy.decide(reads_waiting(0, 512)).reads, 512u);
  const BatchDecision decision = policy.decide(reads_waiting(7, 1300));
  EXPECT_EQ(decision.reads, 512u);
  EXPECT_EQ(decision.again, 7);
}

TEST(FixedSizePolicy, SendsAPartialBatchAfterTheTimeout) {
  FixedSizePolicy policy({512, 100 * us});
  const BatchDecision decision = policy.decide(reads_waiting(5 * us, 3, 40 * us));
  EXPECT_EQ(decision.reads, 0u);
  EXPECT_EQ(decision.again, 65 * us);
  EXPECT_EQ(policy.decide(reads_waiting(65 * us, 4, 100 * us)).reads, 4u);
}

TEST(FixedSizePolicy, CountsReadsAndWritesApart) {
  FixedSizePolicy policy({512, 100 * us});
  WaitingRows waiting = reads_waiting(0, 400, 99 * us);
  waiting.writes = 400;
  waiting.write_age = 10 * us;
  BatchDecision decision = policy.decide(waiting);
  EXPECT_EQ(decision.reads + decision.writes, 0u);
  EXPECT_EQ(decision.again, 1 * us);
  waiting.writes = 512;
  decision = policy.decide(waiting);
  EXPECT_EQ(decision.reads, 0u);
  EXPECT_EQ(decision.writes, 512u);
}

// Periodic. Costs of the paper's card: the time of a batch of reads 37.4 us + 3.0 ns a row, of one
// of writes 136.9 us + 5.6 ns a row.

PeriodicOptions paper_costs(double rate) {
  PeriodicOptions options;
  options.rate = rate;
  options.read_cost = {37.4e3, 3.0};
  options.write_cost = {136.9e3, 5.6};
  return options;
}

TEST(PeriodicPolicy, BoundIsThatOfThePaper) {
  // At a vanishing rate 105.8 us, the paper's figure; section 7.2.1.
  EXPECT_NEAR(PeriodicPolicy::least_cycle(paper_costs(1e-3)), 105.85e3, 1);
  // (2 x 37.4 + 136.9) / (2 - 2 x 3.0e-3 x .95 x 100 - 2 x 5.6e-3 x .05 x 100) us at 100 M/s.
  EXPECT_NEAR(PeriodicPolicy::least_cycle(paper_costs(100e6)), 211.7e3 / 1.374, 1);
  // Without delayed writes, (37.4 + 136.9) us and more.
  PeriodicOptions together = paper_costs(1e-3);
  together.write_cycles = 1;
  EXPECT_NEAR(PeriodicPolicy::least_cycle(together), 174.3e3, 1);
  // Later writes make the bound larger, for more of them come together.
  PeriodicOptions later = paper_costs(100e6);
  later.write_cycles = 4;
  EXPECT_GT(PeriodicPolicy::least_cycle(later), PeriodicPolicy::least_cycle(paper_costs(100e6)));
}

TEST(PeriodicPolicy, ReadsAloneNeedNoTimeForWrites) {
  PeriodicOptions options = paper_costs(100e6);
  options.read_share = 1;
  // 2 x 37.4 us / (2 - 2 x 3.0e-3 x 100).
  EXPECT_NEAR(PeriodicPolicy::least_cycle(options), 74.8e3 / 1.4, 1);
}

TEST(PeriodicPolicy, RefusesACycleBelowTheBound) {
  SchedulingOptions options;
  options.policy = Scheduling::periodic;
  options.periodic = paper_costs(1e-3);
  options.periodic.cycle_ns = 105 * us;
  EXPECT_EQ(refusal(options), "a cycle of 105000 ns is below the bound of 105850 ns");
  options.periodic.cycle_ns = 106 * us;
  EXPECT_EQ(refusal(options), "");
}

TEST(PeriodicPolicy, RefusesARateWithoutACycle) {
  SchedulingOptions options;
  options.policy = Scheduling::periodic;
  // V must be below 2 / (2 x 3.0e-3 x .95 + 2 x 5.6e-3 x .05) = 319.5 rows a us.
  options.periodic = paper_costs(319e6);
  EXPECT_EQ(refusal(options), "");
  options.periodic.rate = 320e6;
  EXPECT_EQ(refusal(options),
            "no cycle suffices for 3.2e+08 rows a second: the device would be busy 100.16 % of the "
            "time with rows alone");
}

TEST(PeriodicPolicy, RefusesWhatMakesNoSense) {
  SchedulingOptions options;
  options.policy = Scheduling::periodic;
  const auto refuses = [&](auto&& change) {
    options.periodic = paper_costs(1e6);
    change(options.periodic);
    return refusal(options) != "";
  };
  EXPECT_FALSE(refuses([](PeriodicOptions&) {}));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.write_cycles = 0; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.write_cycles = 1001; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.rate = 0; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.read_share = 1.5; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.read_cost.row_ns = -1; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.headroom = 0.5; }));
  EXPECT_TRUE(refuses([](PeriodicOptions& periodic) { periodic.cycle_ns = -5; }));
  // No costs were measured.
  EXPECT_TRUE(
      refuses([](PeriodicOptions& periodic) { periodic.read_cost = periodic.write_cost = {}; }));
}

TEST(PeriodicPolicy, TakesTheBoundAndHeadroomForItsCycle) {
  PeriodicOptions options = paper_costs(1e-3);
  options.headroom = 2;
  EXPECT_NEAR(static_cast<double>(PeriodicPolicy(options).cycle()), 211.7e3, 2);
}

PeriodicOptions cycle_of_100us(uint32_t write_cycles) {
  PeriodicOptions options;
  options.cycle_ns = 100 * us;
  options.write_cycles = write_cycles;
  options.rate = 1e6;
  options.read_cost = options.write_cost = {1e3, 1};
  return options;
}

TEST(PeriodicPolicy, SendsReadsAtTheEndOfTheirCycle) {
  PeriodicPolicy policy(cycle_of_100us(2));
  constexpr int64_t begin = 7 * ms;
  EXPECT_EQ(policy.decide(reads_waiting(begin, 1)).again, begin + 100 * us);
  EXPECT_EQ(policy.decide(reads_waiting(begin + 99 * us, 50, 99 * us)).reads, 0u);
  EXPECT_EQ(policy.decide(reads_waiting(begin + 100 * us, 60, 100 * us)).reads, 60u);
  // The next ones arrive at 103 us.
  const BatchDecision decision = policy.decide(reads_waiting(begin + 104 * us, 2, 1 * us));
  EXPECT_EQ(decision.reads, 0u);
  EXPECT_EQ(decision.again, begin + 200 * us);
  EXPECT_EQ(policy.decide(reads_waiting(begin + 201 * us, 3, 98 * us)).reads, 3u);
}

TEST(PeriodicPolicy, SendsWritesAtTheEndOfEveryNthCycle) {
  PeriodicPolicy policy(cycle_of_100us(3));
  policy.decide(writes_waiting(0, 1));
  EXPECT_EQ(policy.decide(writes_waiting(100 * us, 5, 100 * us)).writes, 0u);
  const BatchDecision decision = policy.decide(writes_waiting(200 * us, 6, 200 * us));
  EXPECT_EQ(decision.writes, 0u);
  EXPECT_EQ(decision.again, 300 * us);
  EXPECT_EQ(policy.decide(writes_waiting(300 * us, 7, 300 * us)).writes, 7u);
}

TEST(PeriodicPolicy, MakesUpForNoCycleAfterIdleTimes) {
  PeriodicPolicy policy(cycle_of_100us(2));
  policy.decide(reads_waiting(0, 1));
  // A read that arrives at 1,000,030 us waits for the next line of the grid, not for none.
  const BatchDecision decision = policy.decide(reads_waiting(1'000'030 * us, 1, 0));
  EXPECT_EQ(decision.reads, 0u);
  EXPECT_EQ(decision.again, 1'000'100 * us);
  EXPECT_EQ(policy.decide(reads_waiting(1'000'100 * us, 1, 70 * us)).reads, 1u);
}

// Adaptive.

// With the paper's thresholds.
AdaptiveOptions wide_windows() {
  AdaptiveOptions options;
  options.threshold = 10'000;
  options.most_threshold = 250'000'000;
  options.factor = 10;
  options.rate_window_ns = 1000 * ms;
  options.most_switches = 1'000'000;
  return options;
}

TEST(AdaptivePolicy, ShortQueuesGoByTheExpressPath) {
  AdaptivePolicy policy(wide_windows());
  BatchDecision decision = policy.decide(reads_waiting(0, 9'999, 10 * ms));
  EXPECT_EQ(decision.reads, 9'999u);
  EXPECT_EQ(decision.route, BatchRoute::express);
  decision = policy.decide(reads_waiting(0, 10'000, 10 * ms));
  EXPECT_EQ(decision.reads, 10'000u);
  EXPECT_EQ(decision.route, BatchRoute::bulk);
}

TEST(AdaptivePolicy, ShortQueuesGatherWhileTheDeviceHasEnough) {
  AdaptivePolicy policy(wide_windows());
  EXPECT_EQ(policy.decide(reads_waiting(0, 9'999, 10 * ms, 3)).reads, 0u);
  EXPECT_EQ(policy.decide(reads_waiting(0, 9'999, 10 * ms, 2)).reads, 9'999u);
  EXPECT_EQ(policy.decide(reads_waiting(0, 10'000, 10 * ms, 3)).reads, 10'000u);
}

TEST(AdaptivePolicy, ThresholdReachedSoonIsMultipliedUpToItsMost) {
  AdaptiveOptions options = wide_windows();
  options.most_threshold = 500'000;
  AdaptivePolicy policy(options);
  policy.decide(reads_waiting(0, 10'000, 1 * ms + 1));
  EXPECT_EQ(policy.threshold(), 10'000u);
  policy.decide(reads_waiting(0, 10'000, 1 * ms));
  EXPECT_EQ(policy.threshold(), 100'000u);
  policy.decide(reads_waiting(0, 99'999, 1 * ms));
  EXPECT_EQ(policy.threshold(), 100'000u);
  policy.decide(reads_waiting(0, 100'000, 1 * ms));
  EXPECT_EQ(policy.threshold(), 500'000u);
}

TEST(AdaptivePolicy, ThresholdIsHalvedWhileTheRateFalls) {
  AdaptiveOptions options = wide_windows();
  options.rate_window_ns = 10 * ms;
  AdaptivePolicy policy(options);
  uint64_t arrived = 0;
  int64_t now = 0;
  const auto window = [&](uint64_t rows) {
    now += 10 * ms;
    arrived += rows;
    WaitingRows waiting = reads_waiting(now, 1, 10 * ms);
    waiting.arrived = arrived;
    policy.decide(waiting);
    return policy.threshold();
  };
  window(0);
  policy.decide(reads_waiting(now, 10'000, 0));
  EXPECT_EQ(window(1'000'000), 100'000u);
  EXPECT_EQ(window(950'000), 100'000u);  // about the same
  EXPECT_EQ(window(800'000), 50'000u);
  EXPECT_EQ(window(400'000), 25'000u);
  EXPECT_EQ(window(400'000), 25'000u);
  EXPECT_EQ(window(100'000), 12'500u);
  EXPECT_EQ(window(1'000), 10'000u);
  EXPECT_EQ(window(0), 10'000u);
}

class AdaptiveSwitches : public ::testing::Test {
 protected:
  AdaptiveSwitches() : policy(options()) {}

  static AdaptiveOptions options() {
    AdaptiveOptions options;
    options.threshold = 100;
    options.soon_ns = -1;  // the threshold stays
    return options;
  }
  BatchRoute at(int64_t now, uint64_t rows, uint64_t arrived) {
    WaitingRows waiting = reads_waiting(now, rows);
    waiting.arrived = arrived;
    return policy.decide(waiting).route;
  }

  AdaptivePolicy policy;
};

TEST_F(AdaptiveSwitches, TheThirdChangeWithinASecondLeadsToTheBulkPathAtAHighRate) {
  // Rows arrive at 1 M/s.
  EXPECT_EQ(at(0, 1, 0), BatchRoute::express);
  EXPECT_EQ(at(100 * ms, 100, 100'000), BatchRoute::bulk);
  EXPECT_EQ(at(200 * ms, 1, 200'000), BatchRoute::express);
  EXPECT_EQ(at(300 * ms, 100, 300'000), BatchRoute::bulk);
  EXPECT_EQ(at(400 * ms, 1, 400'000), BatchRoute::bulk);
  EXPECT_EQ(at(1299 * ms, 1, 1'300'000), BatchRoute::bulk);
  EXPECT_EQ(at(1300 * ms, 1, 1'300'000), BatchRoute::express);
}

TEST_F(AdaptiveSwitches, TheExpressPathIsKeptWhereTheRateIsLow) {
  EXPECT_EQ(at(0, 1, 0), BatchRoute::express);
  EXPECT_EQ(at(100 * ms, 100, 1'000), BatchRoute::bulk);
  EXPECT_EQ(at(200 * ms, 1, 2'000), BatchRoute::express);
  EXPECT_EQ(at(300 * ms, 100, 3'000), BatchRoute::express);
  EXPECT_EQ(at(1299 * ms, 100, 13'000), BatchRoute::express);
  EXPECT_EQ(at(1300 * ms, 100, 13'100), BatchRoute::bulk);
}

TEST_F(AdaptiveSwitches, TheExpressPathIsLeftWhenTheRateRises) {
  for (int64_t i = 0; i < 4; ++i) {
    at(i * 100 * ms, i % 2 == 0 ? 1 : 100, static_cast<uint64_t>(i) * 1'000);
  }
  EXPECT_EQ(at(400 * ms, 1, 4'000), BatchRoute::express);
  EXPECT_EQ(at(405 * ms, 100, 104'000), BatchRoute::express);  // before anybody has measured it
  EXPECT_EQ(at(410 * ms, 100, 204'000), BatchRoute::bulk);
}

TEST_F(AdaptiveSwitches, AtFirstNobodyKnowsThatTheRateIsLow) {
  for (int64_t i = 0; i < 4; ++i) at(i * 1000, i % 2 == 0 ? 1 : 100, static_cast<uint64_t>(i));
  EXPECT_EQ(at(4000, 1, 4), BatchRoute::bulk);
}

// Rates that are high and low by chance, and short and long queues that come at any time.
TEST_F(AdaptiveSwitches, NoSecondHasMoreChangesThanAreAllowed) {
  std::mt19937_64 random(1);
  std::deque<int64_t> changes;  // within the last second
  BatchRoute before = BatchRoute::express;
  int64_t now = 0;
  uint64_t arrived = 0;
  uint64_t all = 0;
  for (int i = 0; i < 4000; ++i) {
    now += static_cast<int64_t>(random() % 200) * ms;
    arrived += random() % (i / 100 % 2 == 0 ? 10 : 1'000'000);
    const BatchRoute route = at(now, random() % 2 == 0 ? 1 : 100, arrived);
    while (!changes.empty() && changes.front() <= now - 1000 * ms) changes.pop_front();
    if (route != before) {
      changes.push_back(now);
      ++all;
    }
    before = route;
    ASSERT_LE(changes.size(), 3u) << i;
  }
  EXPECT_GT(all, 200u);
}

TEST_F(AdaptiveSwitches, ChangesFarApartAreFree) {
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(at(i * 600 * ms, i % 2 == 0 ? 1 : 100, 0),
              i % 2 == 0 ? BatchRoute::express : BatchRoute::bulk);
  }
}

TEST(Policies, OptionsThatCannotWorkAreRefused) {
  SchedulingOptions options;
  options.policy = Scheduling::greedy;
  options.greedy.budget = 0;
  EXPECT_NE(refusal(options), "");
  options.policy = Scheduling::fixed_size;
  options.fixed_size.rows = 0;
  EXPECT_NE(refusal(options), "");
  options.policy = Scheduling::adaptive;
  options.adaptive.most_threshold = options.adaptive.threshold - 1;
  EXPECT_NE(refusal(options), "");
  options.adaptive = {};
  options.adaptive.most_switches = 0;
  EXPECT_NE(refusal(options), "");
  options.adaptive = {};
  EXPECT_EQ(refusal(options), "");
}

}  // namespace
}  // namespace isotherm::policies_test
