#include "command/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace isotherm {
namespace {

// The 64 bits from `first`, which begins a byte, on: the first one highest; zeros from `end` on.
uint64_t word_at(std::string_view value, uint64_t first, uint64_t end) {
  uint64_t word = 0;
  const uint64_t bytes = std::min<uint64_t>(8, (end - first + 7) / 8);
  std::memcpy(&word, value.data() + first / 8, bytes);
  word = __builtin_bswap64(word);
  return end - first < 64 ? word & ~(~uint64_t{0} >> (end - first)) : word;
}

}  // namespace

uint64_t count_bits(std::string_view value, uint64_t first, uint64_t end) {
  uint64_t count = 0;
  // Bits of the first byte that stand before the range are subtracted again.
  const uint64_t begin = first / 8 * 8;
  if (first < end && begin != first) {
    count -= static_cast<uint64_t>(std::popcount(word_at(value, begin, first)));
  }
  for (uint64_t at = begin; first < end && at < end; at += 64) {
    count += static_cast<uint64_t>(std::popcount(word_at(value, at, end)));
  }
  return count;
}

uint64_t find_bit(std::string_view value, bool bit, uint64_t first, uint64_t end) {
  const uint64_t inverted = bit ? 0 : ~uint64_t{0};
  for (uint64_t at = first / 8 * 8; first < end && at < end; at += 64) {
    uint64_t word = word_at(value, at, end) ^ inverted;
    if (at < first) word &= ~uint64_t{0} >> (first - at);
    if (word == 0) continue;
    return std::min(end, at + static_cast<uint64_t>(std::countl_zero(word)));
  }
  return end;
}

}  // namespace isotherm
