// A sorted tier in the memory of a GPU, for code that no CUDA compiler sees.
//
// Two files define this: gpu/store/cuda_sorted_tier.cu in the library of the GPU, and, weakly,
// gpu/store/no_cuda.cc in that of the host, which counts where the former is not linked.
#pragma once

#include <cstdint>

#include "gpu/store/sorted_tier.h"

namespace isotherm {

// Makes a tier on the GPU of this number. The maker throws DeviceError where there is no such GPU,
// or the program was built without CUDA.
SortedTierMaker cuda_sorted_tier_maker(uint32_t gpu);

}  // namespace isotherm
