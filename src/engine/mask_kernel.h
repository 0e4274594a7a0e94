// MaskKernel: turns the replies of a call into zeros and ones, for GpuTable.
//
// Threads. One a row. In place: `mask` holds the replies, of which those from reply_other_version
// on say why a row changed nothing.
#pragma once

#include <cstdint>

#include "engine/gpu_part.h"
#include "gpu/kernel/each_request.h"

namespace isotherm {

struct MaskKernel {
  uint8_t* mask = nullptr;
  uint64_t rows = 0;
  GpuMask kind = GpuMask::found;
  // Of compare_and_swap.
  const uint64_t* before = nullptr;
  const uint64_t* expected = nullptr;
  uint8_t* refused = nullptr;  // or null

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, rows, [&](uint64_t row) {
      const uint8_t reply = mask[row];
      bool set = reply == 1;
      if (kind == GpuMask::stored) set = reply < gpu::reply_other_version;
      if (kind == GpuMask::absent) set = reply == 0;
      if (kind == GpuMask::swapped) set = set && before[row] == expected[row];
      mask[row] = set ? 1 : 0;
      if (refused != nullptr) refused[row] = reply == reply_retry ? 1 : 0;
    });
  }
};

}  // namespace isotherm
