// KeyHead: the first 16 bytes of a key as two numbers, so that most comparisons of keys are of
// numbers, and look at no memory but the head's. What a short key lacks counts as zeros: where
// heads agree, the keys say more.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace isotherm {

struct KeyHead {
  uint64_t high = 0;
  uint64_t low = 0;

  static KeyHead of(std::string_view key) {
    const size_t size = key.size();
    if (size >= 16) return {number_at(key.data()), number_at(key.data() + 8)};
    if (size > 8) {
      return {number_at(key.data()), number_at(key.data() + size - 8) << (128 - 8 * size)};
    }
    if (size == 8) return {number_at(key.data()), 0};
    KeyHead head;
    for (size_t i = 0; i < size; ++i) {
      head.high |= uint64_t{static_cast<uint8_t>(key[i])} << (56 - 8 * i);
    }
    return head;
  }
  auto operator<=>(const KeyHead&) const = default;

 private:
  static uint64_t number_at(const char* at) {
    uint64_t number = 0;
    std::memcpy(&number, at, sizeof number);
    return __builtin_bswap64(number);
  }
};

// As std::string_view::compare, of keys with their heads.
inline int compare_keys(const KeyHead& a_head, std::string_view a, const KeyHead& b_head,
                        std::string_view b) {
  if (a_head.high != b_head.high) return a_head.high < b_head.high ? -1 : 1;
  if (a_head.low != b_head.low) return a_head.low < b_head.low ? -1 : 1;
  return a.compare(b);
}

}  // namespace isotherm
