#include "base/tile.h"

#include <gtest/gtest.h>

namespace isotherm::tile_test {
namespace {

struct alignas(128) Line {
  static constexpr int slots = 8;
  Pair slot[slots];
};

TEST(TilePlain, MatchesHashesAndNeverWords) {
  for (uint32_t pattern = 0; pattern < 256; ++pattern) {
    Line line;
    for (uint32_t i = 0; i < 8; ++i) {
      // Where the hash differs the word is the wanted one.
      line.slot[i] = (pattern >> i & 1) != 0 ? Pair{42, i} : Pair{43 + i, 42};
    }
    EXPECT_EQ(TilePlain::match(&line, 42), pattern);
  }
}

TEST(TilePlain, ReadsAndReplacesSlots) {
  Line line = {};
  EXPECT_EQ(TilePlain::match(TilePlain::load(&line), 0), 0xFFu);
  EXPECT_TRUE(TilePlain::replace(&line, 3, Pair{0, 0}, Pair{7, 8}));
  EXPECT_EQ(TilePlain::slot(&line, 3), (Pair{7, 8}));
  EXPECT_EQ(TilePlain::match(&line, 7), 8u);
  EXPECT_TRUE(TilePlain::leads());
}

}  // namespace
}  // namespace isotherm::tile_test
