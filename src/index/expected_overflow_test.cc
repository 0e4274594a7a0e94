#include "index/expected_overflow.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace isotherm::expected_overflow_test {
namespace {

// Beside chains that are filled entry by entry.
TEST(ExpectedOverflow, IsWhatRandomChainsHave) {
  constexpr uint64_t lines = 1 << 16;
  std::mt19937_64 random(1);
  for (const double mean : {0.5, 2.0, 4.0, 6.0, 8.0, 11.0, 25.0}) {
    std::vector<uint32_t> entries(lines);
    const auto count = static_cast<uint64_t>(mean * lines);
    uint64_t overflow = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t before = entries[random() % lines]++;
      overflow += before >= Bucket::slots && (before - Bucket::slots) % (Bucket::slots - 1) == 0;
    }
    const double expected = expected_overflow(mean) * lines;
    EXPECT_NEAR(static_cast<double>(overflow), expected, 5 * std::sqrt(expected) + 1) << mean;
  }
}

TEST(ExpectedOverflow, AnEmptyIndexHasNone) { EXPECT_EQ(expected_overflow(0), 0); }

}  // namespace
}  // namespace isotherm::expected_overflow_test
