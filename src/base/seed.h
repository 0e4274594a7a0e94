// draw_seed: the seed of a hash that nobody chose, from the system's random numbers.
#pragma once

#include <cstdint>
#include <random>

namespace isotherm {

inline uint64_t draw_seed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace isotherm
