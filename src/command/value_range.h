// ValueRange: the bytes of a value, or its bits, from one place to another, as GETRANGE, BITCOUNT
// and BITPOS count them: places below 0 from the end, and what lies outside of the value left out.
#pragma once

#include <algorithm>
#include <cstdint>

namespace isotherm {

struct ValueRange {
  uint64_t first = 0;
  uint64_t count = 0;

  // Both are counted from the end, in the wrong order: GETRANGE and BITCOUNT then take none,
  // whatever the length.
  static bool are_backwards(int64_t first, int64_t last) { return first < 0 && last < first; }

  // Of a value of `size` bytes, or bits; `last` is within the range.
  static ValueRange of(int64_t first, int64_t last, uint64_t size) {
    const auto end = static_cast<int64_t>(size);
    if (first < 0) first = std::max<int64_t>(first + end, 0);
    if (last < 0) last = std::max<int64_t>(last + end, 0);
    last = std::min(last, end - 1);
    if (first > last) return {};
    return {static_cast<uint64_t>(first), static_cast<uint64_t>(last - first) + 1};
  }
  // None where they are backwards.
  static ValueRange in_order(int64_t first, int64_t last, uint64_t size) {
    return are_backwards(first, last) ? ValueRange() : of(first, last, size);
  }
};

}  // namespace isotherm
