#include "base/lzf.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace isotherm::lzf_test::lzf_test {
namespace {

// Texts of few different bytes, with pieces of themselves in them.
std::string draw_text(std::mt19937& random) {
  std::string text;
  const size_t size = random() % 3 == 0 ? random() % 20'000 : random() % 200;
  const uint32_t letters = 1 + random() % 60;
  while (text.size() < size) {
    if (text.size() > 4 && random() % 3 == 0) {
      text += text.substr(random() % text.size(), random() % 400);
    } else {
      text += static_cast<char>(random() % letters);
    }
  }
  return text;
}

TEST(Lzf, UnpacksWhatItPacked) {
  std::mt19937 random(1);
  int packed_texts = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const std::string text = draw_text(random);
    const uint64_t most = text.size() / (1 + random() % 3);
    const std::string packed = lzf_pack(text, most);
    ASSERT_LE(packed.size(), most);
    if (packed.empty()) continue;
    ++packed_texts;
    ASSERT_LE(text.size(), lzf_most_unpacked(packed.size()));
    std::string unpacked(text.size(), 'x');
    ASSERT_TRUE(lzf_unpack(packed, unpacked));
    ASSERT_EQ(unpacked, text);
    // Any other length is refused.
    unpacked.push_back('x');
    ASSERT_FALSE(lzf_unpack(packed, unpacked));
    unpacked.resize(text.size() - 1);
    ASSERT_FALSE(lzf_unpack(packed, unpacked));
  }
  EXPECT_GT(packed_texts, 200);
}

TEST(Lzf, StaysWithinItsBufferWhateverItUnpacks) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string packed(random() % 40, '\0');
    for (char& c : packed) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 8);
    // Exactly as long as it may be, so that a sanitizer sees one byte more.
    std::string text(random() % 300, 'x');
    text.shrink_to_fit();
    lzf_unpack(packed, text);
  }
}

}  // namespace
}  // namespace isotherm::lzf_test::lzf_test
