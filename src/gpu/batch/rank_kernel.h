// RankKernel: few rows of keys with several writers, sorted by key and row in one step. Each row's
// place is the number of rows before it, which a warp counts by looking at all of them. A part that
// has more of them than its list takes goes by gpu/batch/sort_kernels.h, whose steps meet more
// often but look at each row a few times only.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/bits.h"

namespace isotherm {

struct RankKernel {
  BatchView batch;
  uint32_t* slots_out = nullptr;
  uint32_t* rows_out = nullptr;

  // The most rows that are worth it in a part of so many, which has a warp for each 32: a warp
  // looks at some 64 times 32 rows then.
  static uint32_t most_listed(uint32_t rows) {
    uint32_t most = 1;
    while (uint64_t{most} * most < uint64_t{rows} * 64) most *= 2;
    return most < rows ? most : rows;
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (!batch.takes_listed()) return;
    const uint32_t size = batch.counters->listed;
    const uint32_t thread = lane.block() * lane.threads() + lane.thread();
    if (thread == 0) batch.counters->grouped = size;
    const uint32_t warps = lane.blocks() * lane.threads() / 32;
    for (uint32_t i = thread / 32; i < size; i += warps) {
      const uint64_t own = batch.listed[i];
      const auto slot = static_cast<uint32_t>(own >> 32);
      uint32_t before = 0;
      uint32_t start = 0;  // those of other slots among them
      for (uint32_t j = thread % 32; j - thread % 32 < size; j += 32) {
        const uint64_t other = j < size ? batch.listed[j] : ~uint64_t{0};
        before += count_bits(lane.ballot(whole_warp, other < own));
        start += count_bits(lane.ballot(whole_warp, other >> 32 < slot));
      }
      if (thread % 32 != 0) continue;
      slots_out[before] = slot;
      rows_out[before] = static_cast<uint32_t>(own);
      if (start == before) batch.writers.start[slot] = start;
    }
  }
};

}  // namespace isotherm
