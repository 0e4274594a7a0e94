// Random numbers for the load: fast, seeded, the same on every machine.
//
// A Weyl sequence put through a 64-bit mixer: one multiply-xor chain a number, period 2^64, all the
// state in one word. Not for secrets.
//
// Threads. One owner. Threads seed theirs with different streams of one seed.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace isotherm::bench {

__extension__ typedef unsigned __int128 Wide;

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(mix(seed, mix(stream, 1))) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix(state_, 0);
  }
  // In [0, limit); limit must not be 0.
  uint64_t below(uint64_t limit) {
    return static_cast<uint64_t>((static_cast<Wide>(next()) * limit) >> 64);
  }
  // In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // In (0, 1], so its logarithm is finite.
  double unit_above_zero() { return static_cast<double>((next() >> 11) + 1) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace isotherm::bench
