#include "command/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace isotherm::bits_test::bits_test {
namespace {

bool bit_at(const std::string& value, uint64_t bit) {
  return (static_cast<uint8_t>(value[bit / 8]) >> (7 - bit % 8) & 1) != 0;
}

// All ranges of values of few bytes that are mostly zeros or mostly ones, bit by bit.
TEST(Bits, AreCountedAndFoundInAnyRange) {
  std::mt19937 random(1);
  for (size_t bytes = 0; bytes <= 20; ++bytes) {
    std::string value(bytes, random() % 2 == 0 ? '\0' : '\xFF');
    for (size_t i = 0; i < bytes; i += 1 + random() % 9)
      value[i] ^= static_cast<char>(1 << random() % 8);
    for (uint64_t first = 0; first <= bytes * 8; ++first) {
      uint64_t set = 0;
      uint64_t found[] = {~uint64_t{0}, ~uint64_t{0}};
      for (uint64_t end = first; end <= bytes * 8; ++end) {
        ASSERT_EQ(count_bits(value, first, end), set);
        for (const bool bit : {false, true}) {
          ASSERT_EQ(find_bit(value, bit, first, end), std::min(found[bit], end));
        }
        if (end == bytes * 8) break;
        const bool bit = bit_at(value, end);
        set += bit ? 1 : 0;
        found[bit] = std::min(found[bit], end);
      }
    }
  }
}

}  // namespace
}  // namespace isotherm::bits_test::bits_test
