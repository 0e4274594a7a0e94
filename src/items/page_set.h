// PageSet: a set of page numbers that finds its smallest (or largest) member in a few steps.
//
// Three levels of bits: a bit per page, a bit per word of those that is not zero, a bit per word of
// these. Threads: the owner's lock.
#pragma once

#include <bit>
#include <cstdint>

#include "items/reservation.h"

namespace isotherm {

class PageSet {
 public:
  static constexpr uint32_t none = ~uint32_t{0};

  explicit PageSet(uint64_t pages)
      : top_words_(pages / (64 * 64 * 64) + 1),
        low_(top_words_ * 64 * 64),
        middle_(top_words_ * 64),
        top_(top_words_) {}

  void insert(uint32_t page) {
    low_[page >> 6] |= bit(page);
    middle_[page >> 12] |= bit(page >> 6);
    top_[page >> 18] |= bit(page >> 12);
  }
  void erase(uint32_t page) {
    if ((low_[page >> 6] &= ~bit(page)) != 0) return;
    if ((middle_[page >> 12] &= ~bit(page >> 6)) != 0) return;
    top_[page >> 18] &= ~bit(page >> 12);
  }
  void set(uint32_t page, bool member) { member ? insert(page) : erase(page); }

  uint32_t first() const {
    for (uint32_t i = 0; i < top_words_; ++i) {
      if (top_[i] == 0) continue;
      const uint32_t middle = i * 64 + lowest(top_[i]);
      const uint32_t low = middle * 64 + lowest(middle_[middle]);
      return low * 64 + lowest(low_[low]);
    }
    return none;
  }
  uint32_t last() const {
    for (uint32_t i = static_cast<uint32_t>(top_words_); i-- > 0;) {
      if (top_[i] == 0) continue;
      const uint32_t middle = i * 64 + highest(top_[i]);
      const uint32_t low = middle * 64 + highest(middle_[middle]);
      return low * 64 + highest(low_[low]);
    }
    return none;
  }

 private:
  static constexpr uint64_t bit(uint32_t i) { return uint64_t{1} << (i & 63); }
  static uint32_t lowest(uint64_t word) { return static_cast<uint32_t>(std::countr_zero(word)); }
  static uint32_t highest(uint64_t word) {
    return 63 - static_cast<uint32_t>(std::countl_zero(word));
  }

  const uint64_t top_words_;
  LazyArray<uint64_t> low_;
  LazyArray<uint64_t> middle_;
  LazyArray<uint64_t> top_;
};

}  // namespace isotherm
