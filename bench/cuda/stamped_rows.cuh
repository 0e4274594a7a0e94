// Rows that begin with a stamp, from which, and from its key, the rest of a row follows. So a model
// that knows the stamp of each key (cuda/replayed_table.h) can tell whether a row is right.
#pragma once

#include <cstdint>

#include "cuda/replayed_table.h"

namespace isotherm::bench {

__device__ inline uint64_t row_word(uint64_t key, uint64_t stamp, uint64_t number) {
  return number == 0 ? stamp : (key ^ stamp) * (2 * number + 1);
}

// Rows of `words` words each.
static __global__ void write_rows(const uint64_t* keys, const uint64_t* stamps, uint64_t* rows,
                                  uint64_t count, uint64_t words) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t at = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count * words;
       at += stride) {
    rows[at] = row_word(keys[at / words], stamps[at / words], at % words);
  }
}

// The stamps of rows that were found; one that is nobody's row counts as not answered.
static __global__ void read_rows(const uint64_t* keys, const uint64_t* rows, uint64_t* stamps,
                                 uint8_t* found, uint64_t count, uint64_t words) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (found[i] != 1) continue;
    const uint64_t stamp = rows[i * words];
    for (uint64_t w = 1; w < words; ++w) {
      if (rows[i * words + w] != row_word(keys[i], stamp, w)) {
        found[i] = ReplayedTable::untouched_byte;
      }
    }
    stamps[i] = stamp;
  }
}

}  // namespace isotherm::bench
