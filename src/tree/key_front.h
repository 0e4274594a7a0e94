// KeyFront: the first 16 bytes of a key as two numbers, so that most comparisons of keys are of
// numbers, and look at no memory but the front's. What a short key lacks counts as zeros: where
// fronts agree, the keys say more.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace isotherm {

struct KeyFront {
  uint64_t high = 0;
  uint64_t low = 0;

  static KeyFront of(std::string_view key) {
    const size_t size = key.size();
    if (size >= 16) return {number_at(key.data()), number_at(key.data() + 8)};
    if (size > 8) {
      return {number_at(key.data()), number_at(key.data() + size - 8) << (128 - 8 * size)};
    }
    if (size == 8) return {number_at(key.data()), 0};
    KeyFront front;
    for (size_t i = 0; i < size; ++i) {
      front.high |= uint64_t{static_cast<uint8_t>(key[i])} << (56 - 8 * i);
    }
    return front;
  }
  auto operator<=>(const KeyFront&) const = default;

 private:
  static uint64_t number_at(const char* at) {
    uint64_t number = 0;
    std::memcpy(&number, at, sizeof number);
    return __builtin_bswap64(number);
  }
};

// As std::string_view::compare, of keys with their fronts.
inline int compare_keys(const KeyFront& a_front, std::string_view a, const KeyFront& b_front,
                        std::string_view b) {
  if (a_front.high != b_front.high) return a_front.high < b_front.high ? -1 : 1;
  if (a_front.low != b_front.low) return a_front.low < b_front.low ? -1 : 1;
  return a.compare(b);
}

}  // namespace isotherm
