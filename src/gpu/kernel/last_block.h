// is_last_block: whether all other blocks of a launch have come as far, so that the last one does
// what a kernel behind them would be launched for.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

// By one lane of each block, once. `blocks_done`: device memory, 0 between launches.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_last_block(const Lane& lane, uint32_t* blocks_done) {
  if (Lane::atomic_add(blocks_done, 1u) + 1 != lane.blocks()) return false;
  Lane::store(blocks_done, 0u);
  return true;
}

}  // namespace isotherm
