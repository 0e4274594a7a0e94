// Rows on the GPU whose words are stamped (cuda/stamped_words.h): written, read, and taken to a
// model.
#pragma once

#include <cstdint>

#include "cuda/gpu_replay.cuh"
#include "cuda/replayed_table.h"
#include "cuda/stamped_words.h"

namespace isotherm::bench {

// Rows of `words` words each.
static __global__ void write_rows(const uint64_t* keys, const uint64_t* stamps, uint64_t* rows,
                                  uint64_t count, uint64_t words) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t at = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count * words;
       at += stride) {
    rows[at] = stamped_word(keys[at / words], stamps[at / words], at % words);
  }
}

// The stamps of rows that were found; one that is nobody's row counts as not answered.
static __global__ void read_rows(const uint64_t* keys, const uint64_t* rows, uint64_t* stamps,
                                 uint8_t* found, uint64_t count, uint64_t words) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (found[i] != 1) continue;
    if (!are_stamped(keys[i], rows + i * words, words)) found[i] = ReplayedTable::untouched_byte;
    stamps[i] = rows[i * words];
  }
}

// Takes to a model the gets of rows that were answered; wrong replies. `stamps` is overwritten.
inline uint64_t replay_rows(GpuReplay& replay, const uint64_t* keys, const uint64_t* rows,
                            uint64_t* stamps, uint8_t* found, uint64_t count, uint64_t words) {
  read_rows<<<2048, 256>>>(keys, rows, stamps, found, count, words);
  TableRequests gets;
  gets.rows = count;
  gets.keys = keys;
  gets.values_out = stamps;
  gets.found = found;
  return replay.replay(gets);
}

}  // namespace isotherm::bench
