#include "isotherm_bench/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace isotherm::bench::distribution_test {
namespace {

// The share of each rank, drawn and exact, may differ by five standard deviations.
void expect_zipf(uint64_t count, double theta) {
  constexpr int draws = 200'000;
  Zipf zipf(count, theta);
  Random random(11);
  std::vector<int> seen(count, 0);
  for (int i = 0; i < draws; ++i) {
    const uint64_t rank = zipf.draw(random);
    ASSERT_LT(rank, count);
    ++seen[rank];
  }
  double sum = 0;
  for (uint64_t rank = 0; rank < count; ++rank) sum += std::pow(rank + 1.0, -theta);
  for (uint64_t rank = 0; rank < count; ++rank) {
    const double share = std::pow(rank + 1.0, -theta) / sum;
    const double deviation = std::sqrt(draws * share * (1 - share)) + 1;
    EXPECT_NEAR(seen[rank], draws * share, 5 * deviation) << "theta " << theta << " rank " << rank;
  }
}

TEST(Zipf, SharesAreExactForAnyTheta) {
  for (double theta : {0.01, 0.5, 0.99, 0.9999999999, 1.0, 1.0000000001, 1.2, 2.0, 5.0}) {
    expect_zipf(50, theta);
  }
  expect_zipf(1, 0.99);
  expect_zipf(2, 1.5);
}

// Ranks behind the first lie in spans of several, whose borders nobody may see: the share of each
// 1,000 ranks one behind the other.
TEST(Zipf, SharesAreExactAcrossSpans) {
  constexpr int draws = 1'000'000;
  constexpr uint64_t count = 100'000;
  constexpr uint64_t together = 1'000;
  for (double theta : {0.5, 0.99, 2.0}) {
    const Zipf zipf(count, theta);
    Random random(5);
    std::vector<int> seen(count / together, 0);
    for (int i = 0; i < draws; ++i) ++seen[zipf.draw(random) / together];
    std::vector<double> shares(seen.size(), 0);
    double sum = 0;
    for (uint64_t rank = 0; rank < count; ++rank) {
      const double share = std::pow(static_cast<double>(rank) + 1.0, -theta);
      shares[rank / together] += share;
      sum += share;
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      const double share = shares[i] / sum;
      EXPECT_NEAR(seen[i], draws * share, 5 * (std::sqrt(draws * share * (1 - share)) + 1))
          << "theta " << theta << " thousand " << i;
    }
  }
}

TEST(Zipf, LargeCountsStayInRange) {
  Random random(3);
  for (double theta : {0.2, 0.99, 1.0, 1.5}) {
    Zipf zipf(uint64_t{1} << 40, theta);
    for (int i = 0; i < 10'000; ++i) EXPECT_LT(zipf.draw(random), uint64_t{1} << 40);
  }
}

TEST(Scramble, IsABijectionOfTheCount) {
  for (uint64_t count : {1, 2, 3, 5, 8, 100, 1000, 4096, 10'007}) {
    Scramble scramble(count);
    std::set<uint64_t> seen;
    for (uint64_t rank = 0; rank < count; ++rank) {
      const uint64_t key = scramble(rank);
      EXPECT_LT(key, count);
      seen.insert(key);
    }
    EXPECT_EQ(seen.size(), count);
  }
}

TEST(Scramble, SpreadsThePopularRanks) {
  Scramble scramble(1'000'000);
  int lower_half = 0;
  for (uint64_t rank = 0; rank < 100; ++rank) lower_half += scramble(rank) < 500'000 ? 1 : 0;
  EXPECT_GT(lower_half, 25);
  EXPECT_LT(lower_half, 75);
}

TEST(Distribution, NamesRoundTrip) {
  for (auto distribution : {Distribution::zipf, Distribution::uniform, Distribution::latest}) {
    EXPECT_EQ(parse_distribution(to_string(distribution)), distribution);
  }
  EXPECT_FALSE(parse_distribution("gauss"));
}

TEST(Random, StreamsDifferAndRangesHold) {
  Random first(1, 0), second(1, 1), again(1, 0);
  EXPECT_NE(first.next(), second.next());
  first = Random(1, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.next(), again.next());
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_LT(first.below(7), 7u);
    EXPECT_LT(first.unit(), 1.0);
    EXPECT_GT(first.unit_above_zero(), 0.0);
  }
}

}  // namespace
}  // namespace isotherm::bench::distribution_test
