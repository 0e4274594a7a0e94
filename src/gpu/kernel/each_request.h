// each_request: a thread of a grid for each request of a part, however many there are.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

// A thread per request, `rows` of them.
template <class Lane, class Work>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void each_request(const Lane& lane, uint64_t rows,
                                                       Work&& work) {
  const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
  for (uint64_t i = uint64_t{lane.block()} * lane.threads() + lane.thread(); i < rows;
       i += stride) {
    work(i);
  }
}

}  // namespace isotherm
