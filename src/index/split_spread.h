// split_spread: by how much a segment's split threshold lies above the lowest, from 1 to under 2.
//
// The first six bits of the prefix give each segment one of 64 phases, even in their logarithm;
// index/segment.h says why. It serves the segments of the CPU and those in device memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace isotherm {

inline double split_spread(uint64_t prefix, int depth) {
  constexpr int phase_bits = 6;
  uint32_t phase = 0;
  for (int bit = 0; bit < std::min(depth, phase_bits); ++bit) {
    phase |= static_cast<uint32_t>((prefix >> (depth - 1 - bit)) & 1) << (phase_bits - 1 - bit);
  }
  // The prefix's first bit decides most; reversing spreads neighbours in directory order too.
  return std::exp2(static_cast<double>(phase) / (1 << phase_bits));
}

}  // namespace isotherm
