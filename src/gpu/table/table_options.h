// FixedDeviceOptions: what a table on a device is told when it is made.
#pragma once

#include <cstdint>

#include "gpu/batch/new_keys.h"
#include "gpu/express/express.h"
#include "gpu/table/device_segments.h"

namespace isotherm {

struct FixedDeviceOptions {
  uint64_t gpu_memory = 0;  // bytes; 0: no cap
  uint64_t seed = 0;
  int line_bits = 16;  // lines of a segment, as a power of two
  uint32_t max_part_rows = 1 << 21;
  ExpressOptions express = {};
  TryOptions tries = {};
  double lowest_load = usual_load;  // gpu/table/device_segments.h
  uint64_t entries = 0;             // of an index of a fixed size
};

}  // namespace isotherm
