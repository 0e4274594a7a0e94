// expected_overflow: how many overflow lines the chains of an index have, given how full it is.
//
// Hashes are uniform, so the entries of a chain follow Poisson's law.
#pragma once

#include <cmath>
#include <cstdint>

#include "index/bucket.h"

namespace isotherm {

// Overflow lines for each line of the segments, at `mean` entries for each.
inline double expected_overflow(double mean) {
  const int most = static_cast<int>(mean + 12 * std::sqrt(mean)) + 2 * Bucket::slots;
  double share = std::exp(-mean);  // of chains with so many entries
  double lines = 0;
  for (int entries = 1; entries <= most; ++entries) {
    share *= mean / entries;
    lines += share * static_cast<double>(overflow_lines_for(static_cast<uint64_t>(entries)));
  }
  return lines;
}

}  // namespace isotherm
