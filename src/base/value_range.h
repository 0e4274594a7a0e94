// ValueRange: the bytes of a value from one place to another, as GETRANGE counts them: places below
// 0 from the end, and what lies outside of the value left out.
#pragma once

#include <algorithm>
#include <cstdint>

namespace isotherm {

struct ValueRange {
  uint64_t first = 0;
  uint64_t bytes = 0;

  // `last` is within it.
  static ValueRange of(int64_t first, int64_t last, uint64_t size) {
    const auto end = static_cast<int64_t>(size);
    if (first < 0 && last < 0 && first > last) return {};
    if (first < 0) first = std::max<int64_t>(first + end, 0);
    if (last < 0) last = std::max<int64_t>(last + end, 0);
    last = std::min(last, end - 1);
    if (first > last) return {};
    return {static_cast<uint64_t>(first), static_cast<uint64_t>(last - first) + 1};
  }
};

}  // namespace isotherm
