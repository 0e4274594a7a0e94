// CountMissesKernel: one block counts the rows that were not found, and tells the host by a word in
// pinned memory.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"

namespace isotherm {

struct CountMissesKernel {
  static constexpr uint32_t threads = 512;
  struct Shared {
    uint64_t hits[threads / 32];
  };

  const uint8_t* found = nullptr;  // 0 or 1 each; of 8 bytes' alignment
  uint64_t rows = 0;
  uint64_t* misses = nullptr;  // of the host

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    uint64_t hits = 0;
    const uint64_t words = rows / sizeof(uint64_t);
    for (uint64_t i = lane.thread(); i < words; i += threads) {
      hits += ones(reinterpret_cast<const uint64_t*>(found)[i]);
    }
    for (uint64_t i = words * sizeof(uint64_t) + lane.thread(); i < rows; i += threads) {
      hits += found[i];
    }
    const uint32_t number = lane.thread() & 31;
    for (uint32_t step = 16; step != 0; step /= 2) {
      hits += lane.shuffle(whole_warp, hits, number ^ step);
    }
    if (number == 0) shared->hits[lane.thread() / 32] = hits;
    lane.sync_block();
    if (lane.thread() != 0) return;
    uint64_t all = 0;
    for (const uint64_t of_warp : shared->hits) all += of_warp;
    *misses = rows - all;
  }

 private:
  ISOTHERM_HOST_DEVICE static uint32_t ones(uint64_t bytes) {
    return count_bits(static_cast<uint32_t>(bytes)) +
           count_bits(static_cast<uint32_t>(bytes >> 32));
  }
};

}  // namespace isotherm
