// The keys of benchmarks: entry r of a table has the key scramble(r + 1), and key_rank() says whose
// a key is.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm::bench {

// A mixer of 64 bits, for keys and places; not the table's hash.
ISOTHERM_HOST_DEVICE inline uint64_t scramble(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

// The number that it makes `x` of: its steps undone in turn.
inline uint64_t unscramble(uint64_t x) {
  x ^= x >> 33;
  x *= 0x9cb4b2f8129337dbULL;
  x ^= x >> 33;
  x *= 0x4f74430c22a54005ULL;
  return x ^ x >> 33;
}

inline uint64_t key_rank(uint64_t key) { return unscramble(key) - 1; }

}  // namespace isotherm::bench
