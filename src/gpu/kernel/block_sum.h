// sum_upto: sums over the threads of a block, each up to its own.
//
//   value[thread] | barrier | one warp: sums of stretches, upto[stretch] | barrier | each thread
//
// A stretch is as many threads as the block has warps, so that one warp has a lane for each. Two
// barriers do, where sums over ever longer steps take two a step; and a thread adds up no more than
// its own stretch, from addresses that its warp shares.
//
// Threads. All of the block call. Another barrier is needed before the memory is used again.
// Limits. Blocks of whole warps.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"

namespace isotherm {

// Shared memory of the sums of a block.
template <class T, uint32_t threads>
struct BlockSums {
  static constexpr uint32_t stretches = 32;
  static constexpr uint32_t stretch = threads / stretches;
  static_assert(threads % stretches == 0 && (stretch & (stretch - 1)) == 0);

  T value[threads];
  T upto[stretches];  // the sum of a stretch and of those before
};

// The sum of the values of all threads up to and with this one.
template <class Lane, class T, uint32_t threads>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T sum_upto(const Lane& lane, BlockSums<T, threads>& sums,
                                                T value) {
  constexpr uint32_t stretch = BlockSums<T, threads>::stretch;
  const uint32_t thread = lane.thread();
  sums.value[thread] = value;
  lane.sync_block();
  if (thread < 32) {
    T sum = 0;
    // Each lane from another place of its stretch on: the places that lanes read lie in many banks.
    for (uint32_t i = 0; i < stretch; ++i) {
      sum += sums.value[thread * stretch + ((i + thread) & (stretch - 1))];
    }
    for (uint32_t step = 1; step < 32; step *= 2) {
      const T below = lane.shuffle(whole_warp, sum, thread >= step ? thread - step : thread);
      if (thread >= step) sum += below;
    }
    sums.upto[thread] = sum;
  }
  lane.sync_block();
  const uint32_t first = thread & ~(stretch - 1);
  T sum = first == 0 ? 0 : sums.upto[first / stretch - 1];
  for (uint32_t i = 0; i < stretch; ++i) {
    if (first + i <= thread) sum += sums.value[first + i];
  }
  return sum;
}

}  // namespace isotherm
