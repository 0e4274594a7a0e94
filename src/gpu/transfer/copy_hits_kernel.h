// CopyHitsKernel: values from device memory to pinned memory of the host, where misses leave what
// is there.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace isotherm {

struct CopyHitsKernel {
  const uint64_t* from = nullptr;
  const uint8_t* found = nullptr;
  uint64_t rows = 0;
  uint64_t* to = nullptr;  // of the host

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads();
    for (uint64_t i = uint64_t{lane.block()} * lane.threads() + lane.thread(); i < rows;
         i += stride) {
      if (found[i] != 0) to[i] = from[i];
    }
  }
};

}  // namespace isotherm
