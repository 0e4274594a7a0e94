// expected_overflow: how many overflow lines the chains of an index have, by how full it is.
//
// Hashes are uniform, so the entries of a chain follow Poisson's law. A chain of k overflow lines
// has room for Bucket::slots entries and Bucket::slots - 1 more for each of them, since the last
// slot of every line but the chain's last is a LINK (index/bucket.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "index/bucket.h"

namespace isotherm {

// Overflow lines for each line of the segments, at `mean` entries for each.
inline double expected_overflow(double mean) {
  constexpr int inner = Bucket::slots - 1;
  const int most = static_cast<int>(mean + 12 * std::sqrt(mean)) + 2 * Bucket::slots;
  double share = std::exp(-mean);  // of chains with so many entries
  double lines = 0;
  for (int entries = 1; entries <= most; ++entries) {
    share *= mean / entries;
    if (entries > Bucket::slots) {
      lines += share * ((entries - Bucket::slots + inner - 1) / inner);
    }
  }
  return lines;
}

}  // namespace isotherm
