// FakeRandom: the draws of the fake device, all from one seed.
//
// A counter behind the bijection of base/hash.h: a draw costs a few cycles, since every switch
// between lanes takes one. Equal seeds give equal runs. Threads. One at a time.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace isotherm {

class FakeRandom {
 public:
  explicit FakeRandom(uint64_t seed) : seed_(mix(seed, 0x9e3779b97f4a7c15)) {}

  uint64_t next() { return mix(++count_, seed_); }
  // A number less than `bound`, which is at least 1.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace isotherm
