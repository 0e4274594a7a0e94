// WarpDeal: work of a warp's lanes, cut into units, dealt to all of them: each lane takes every
// 32nd unit, whosoever it is of, so lanes with little to do help those with much.
//
// Threads. All lanes of a warp call `deal`, which is where they see what the others have kept for
// it. Another sync_warp is needed before the memory is used again. Limits. Less than 2^32 units.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"

namespace isotherm {

// The sum of the values of a warp's lanes up to and with this one. All lanes of the warp call.
template <class Lane, class T>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE T warp_sum_upto(const Lane& lane, T value) {
  const uint32_t number = lane.thread() & 31;
  for (uint32_t step = 1; step < 32; step *= 2) {
    const T below = lane.shuffle(whole_warp, value, number >= step ? number - step : 0);
    if (number >= step) value += below;
  }
  return value;
}

struct WarpDeal {
  uint32_t begin[32];  // the number of a lane's first unit among the warp's

  // Takes the units of each lane; those of all lanes.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t deal(const Lane& lane, uint32_t units) {
    const uint32_t upto = warp_sum_upto(lane, units);
    const uint32_t all = lane.shuffle(whole_warp, upto, 31);
    begin[lane.thread() & 31] = upto - units;
    lane.sync_warp(whole_warp);
    return all;
  }
  // The last lane that begins at or before the unit: those without units come before it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t owner_of(uint32_t unit) const {
    uint32_t of = 0;
    for (uint32_t step = 16; step != 0; step /= 2) {
      if (begin[of + step] <= unit) of += step;
    }
    return of;
  }
};

}  // namespace isotherm
