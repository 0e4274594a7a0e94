// Batches made and checked on the GPU: keys of present and absent entries, and replies of tables
// that have their first values.
//
// The entry of rank r has the key scramble(r + 1), and at first three times the key as its value.
#pragma once

#include <cstdint>

#include "cuda/gpu_timer.cuh"
#include "isotherm/table_requests.h"

namespace isotherm::bench {

inline constexpr double theta = 0.99;

// Keys of present entries, by rank: drawn uniformly or by Zipf's law (by the inverse of its
// integral, ranks scattered over the keys); with `absent`, keys that never were put.
static __global__ void draw_keys(uint64_t* keys, uint64_t rows, uint64_t entries, bool zipf,
                                 bool absent, uint64_t seed) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    const double u = static_cast<double>(scramble(seed * 0x9e3779b97f4a7c15 + i) >> 11) * 0x1p-53;
    uint64_t rank = 0;
    if (zipf) {
      const double a = 1 - theta;
      const double at = pow(u * (pow(static_cast<double>(entries), a) - 1) + 1, 1 / a) - 1;
      rank = scramble(static_cast<uint64_t>(at) + 77) % entries;
    } else {
      rank = static_cast<uint64_t>(u * static_cast<double>(entries));
    }
    keys[i] = scramble((rank < entries ? rank : entries - 1) + 1 + (absent ? entries * 8 : 0));
  }
}

static __global__ void fresh_keys(uint64_t* keys, uint64_t* values, uint64_t rows, uint64_t first) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    keys[i] = scramble(first + i + 1);
    values[i] = keys[i] * 3;
  }
}

// Replies that are not `expected` (a present key has the value 3 × key).
static __global__ void count_wrong(const uint64_t* keys, const uint64_t* values,
                                   const uint8_t* found, uint64_t rows, bool expected,
                                   unsigned long long* wrong) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    const bool right = expected ? found[i] == 1 && values[i] == keys[i] * 3 : found[i] == 0;
    if (!right) atomicAdd(wrong, 1ull);
  }
}

}  // namespace isotherm::bench
