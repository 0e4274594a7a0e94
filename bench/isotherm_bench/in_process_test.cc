#include "isotherm_bench/in_process.h"

#include <gtest/gtest.h>

namespace isotherm::bench::in_process_test {
namespace {

constexpr bool Options::*every_store[] = {nullptr, &Options::fixed, &Options::mica};

Options small_options(bool Options::*store = nullptr) {
  Options options;
  options.in_process = true;
  if (store != nullptr) options.*store = true;
  options.workload.records = 10'000;
  options.run.seconds = 0.1;
  options.run.warm_up = 0.01;
  options.run.threads = 2;
  options.run.verify = true;
  return options;
}

TEST(InProcess, EveryOperationRunsAndValuesAreRight) {
  Progress progress(false);
  for (const auto store : every_store) {
    Options options = small_options(store);
    const bool scans = !options.mica;  // and grows
    options.workload.mix = {50, 20, 10, 5, 10, 5};
    if (options.mica) options.workload.mix = {50, 35, 0, 0, 10, 5};
    const InProcessResult result = run_in_process(options, progress);
    ASSERT_EQ(result.failure, "");
    EXPECT_EQ(result.system.load->records, options.workload.records);
    const Counts& counts = result.system.rounds.front().counts;
    EXPECT_GT(counts.hits, 0u);
    EXPECT_EQ(counts.scanned > 0, scans);
    EXPECT_GT(counts.rate, 0);
    EXPECT_GT(result.reference.rate, 0);
  }
}

TEST(InProcess, ReadsOfWhatWasLoadedHit) {
  Progress progress(false);
  for (const auto store : every_store) {
    Options options = small_options(store);
    options.workload.mix = {100, 0, 0, 0, 0, 0};
    options.run.requests = 5000;
    const InProcessResult result = run_in_process(options, progress);
    ASSERT_EQ(result.failure, "");
    const Counts& counts = result.system.rounds.front().counts;
    EXPECT_GE(counts.requests, 5000u);
    EXPECT_EQ(counts.misses, 0u);
    EXPECT_EQ(counts.hits, counts.requests);
  }
}

TEST(InProcess, OpenLoopCountsFromTheDueTime) {
  Progress progress(false);
  Options options = small_options();
  options.run.rate = 20'000;
  const InProcessResult result = run_in_process(options, progress);
  ASSERT_EQ(result.failure, "");
  const Counts& counts = result.system.rounds.front().counts;
  // Everything due in the measured time, give or take what chance draws.
  const double due = options.run.rate * result.system.rounds.front().seconds;
  EXPECT_NEAR(static_cast<double>(counts.latency.count()), due, due / 4);
}

}  // namespace
}  // namespace isotherm::bench::in_process_test
