#include "isotherm_bench/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "isotherm_bench/json.h"

namespace isotherm::bench::figures_test {
namespace {

TEST(Figures, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median(std::vector<double>{NAN, 5}), 5);
  EXPECT_TRUE(std::isnan(median(std::vector<double>{})));
}

TEST(Figures, RatiosAreTakenRoundByRound) {
  Figures slow, fast, peer;
  slow.rate = 10;
  fast.rate = 100;
  peer.rate = 10;
  Figures quick_peer = peer;
  quick_peer.rate = 100;
  // Both twins sped up in the second round: every ratio is 1, which medians would also say; with
  // one round apart the ratio of that round counts.
  EXPECT_EQ(median_ratio({slow, fast}, {peer, quick_peer}).rate, 1);
  EXPECT_EQ(median_ratio({slow, fast, fast}, {peer, quick_peer, peer}).rate, 1);
}

TEST(Figures, OfARun) {
  RunResult run;
  run.seconds = 2;
  run.counts.requests = 1000;
  run.counts.hits = 90;
  run.counts.misses = 10;
  run.counts.rate = 500;
  run.server_cpu = CpuTime{0.5, 0.5};
  run.counts.latency.record(100'000);
  const Figures figures = figures_of(run);
  EXPECT_DOUBLE_EQ(figures.server_cpu_us, 1000);
  EXPECT_DOUBLE_EQ(figures.hit_share, 0.9);
  EXPECT_NEAR(figures.p50_us, 100, 1);
  run.server_cpu.reset();
  EXPECT_TRUE(std::isnan(figures_of(run).server_cpu_us));
}

TEST(Json, NestsAndEscapes) {
  Json json;
  json.begin_object().field("a\"b", "c\\\n").field("n", 1.5).field("nan", NAN).field("i", 7u);
  json.begin_array("list").begin_object().end().begin_object().field("t", true).end().end();
  EXPECT_EQ(json.end().text(),
            "{\n  \"a\\\"b\": \"c\\\\\\u000a\",\n  \"n\": 1.5,\n  \"nan\": null,\n  \"i\": 7,\n"
            "  \"list\": [\n    {},\n    {\n      \"t\": true\n    }\n  ]\n}\n");
}

}  // namespace
}  // namespace isotherm::bench::figures_test
