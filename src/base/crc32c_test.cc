#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace isotherm::crc32c_test {
namespace {

// The check value of the catalogue, and RFC 3720's example.
TEST(Crc32cTest, HasTheKnownSums) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c(0, std::string(32, '\0').data(), 32), 0x8A9136AAu);
}

TEST(Crc32cTest, TheInstructionAndPlainCodeAgreeAlsoInPieces) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(crc32c(0, text.data(), text.size()), crc32c_plain(0, text.data(), text.size()));
    const size_t half = text.size() / 2;
    const uint32_t first = crc32c(0, text.data(), half);
    EXPECT_EQ(crc32c(first, text.data() + half, text.size() - half),
              crc32c_plain(0, text.data(), text.size()));
    text.push_back(static_cast<char>(i * 37));
  }
}

// Long texts are summed in several pieces side by side.
TEST(Crc32cTest, LongTextsHaveTheSumsOfPlainCode) {
  std::string text(20'000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i / 7 + i * 37);
  for (size_t first = 0; first < 9; ++first) {
    for (const size_t bytes : {3071, 3072, 3073, 3080, 6143, 6144, 9300, 19'000}) {
      const uint32_t before = static_cast<uint32_t>(first * 0x12345678);
      EXPECT_EQ(crc32c(before, text.data() + first, bytes),
                crc32c_plain(before, text.data() + first, bytes))
          << first << ", " << bytes;
    }
  }
}

TEST(Crc32cTest, SumsOfPiecesAreJoined) {
  std::string text(20'000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i / 7 + i * 37);
  const uint32_t whole = crc32c(0, text.data(), text.size());
  for (const size_t first : {0, 1, 7, 64, 4095, 9999, 19'999, 20'000}) {
    const size_t second = text.size() - first;
    EXPECT_EQ(crc32c_joined(crc32c(0, text.data(), first), crc32c(0, text.data() + first, second),
                            second),
              whole)
        << first;
  }
}

}  // namespace
}  // namespace isotherm::crc32c_test
