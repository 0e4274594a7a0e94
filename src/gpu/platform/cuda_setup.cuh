// What the tables on a GPU need to begin.
#pragma once

#include <cstdint>
#include <optional>

#include "base/seed.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/device_error.h"

namespace isotherm {

inline uint64_t seed_or_random(std::optional<uint64_t> seed) { return seed ? *seed : draw_seed(); }

// Throws DeviceError where there is none.
inline CudaDevice usable_device(int ordinal) {
  CudaDevice device(ordinal);
  if (!device.usable()) throw DeviceError("no usable GPU: " + device.error());
  return device;
}

}  // namespace isotherm
