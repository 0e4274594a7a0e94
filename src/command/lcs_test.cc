#include "command/lcs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace isotherm::lcs_test::lcs_test {
namespace {

// The table in full, walked back as Redis does.
std::string walked(const std::string& first, const std::string& second) {
  std::vector<std::vector<uint32_t>> table(first.size() + 1,
                                           std::vector<uint32_t>(second.size() + 1));
  for (size_t i = 1; i <= first.size(); ++i) {
    for (size_t j = 1; j <= second.size(); ++j) {
      table[i][j] = first[i - 1] == second[j - 1] ? table[i - 1][j - 1] + 1
                                                  : std::max(table[i - 1][j], table[i][j - 1]);
    }
  }
  std::string places;
  for (size_t i = first.size(), j = second.size(); i > 0 && j > 0;) {
    if (first[i - 1] == second[j - 1]) {
      --i;
      --j;
      places += std::to_string(i) + "=" + std::to_string(j) + " ";
    } else if (table[i - 1][j] > table[i][j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  return places;
}

std::string places_of(const std::vector<CommonPiece>& pieces) {
  std::string places;
  for (const CommonPiece& piece : pieces) {
    for (uint64_t i = piece.size; i-- > 0;) {
      places += std::to_string(piece.first + i) + "=" + std::to_string(piece.second + i) + " ";
    }
  }
  return places;
}

TEST(Lcs, TakesTheWayThatTheTableShows) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const auto text = [&](uint32_t most, uint32_t letters) {
      std::string made(random() % most, 'a');
      for (char& c : made) c = static_cast<char>(250 + random() % letters);
      return made;
    };
    const uint32_t letters = 1 + random() % 6;
    const std::string first = text(trial % 4 == 0 ? 200 : 40, letters);
    const std::string second = text(trial % 4 == 0 ? 200 : 40, letters);
    const std::vector<CommonPiece> pieces = lcs_pieces(first, second);
    ASSERT_EQ(places_of(pieces), walked(first, second)) << first << " " << second;
    ASSERT_EQ(join_pieces(first, pieces).size(), lcs_length(first, second));
  }
}

TEST(Lcs, PiecesAreWhole) {
  const std::vector<CommonPiece> pieces = lcs_pieces("ohmytext", "mynewtext");
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].first, 4u);
  EXPECT_EQ(pieces[0].second, 5u);
  EXPECT_EQ(pieces[0].size, 4u);
  EXPECT_EQ(join_pieces("ohmytext", pieces), "mytext");
}

TEST(Lcs, OfNothingIsNothing) {
  EXPECT_EQ(lcs_length("", "abc"), 0u);
  EXPECT_EQ(lcs_length("abc", ""), 0u);
  EXPECT_TRUE(lcs_pieces("", "").empty());
}

}  // namespace
}  // namespace isotherm::lcs_test::lcs_test
