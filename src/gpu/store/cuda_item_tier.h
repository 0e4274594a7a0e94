// Whole items in the memory of GPUs, for code that no CUDA compiler sees.
//
// Two files define this: gpu/store/cuda_item_tier.cu in the library of the GPU, and, weakly,
// gpu/store/no_cuda.cc in that of the host, which counts where the former is not linked.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/store/item_tier.h"

namespace isotherm {

// Makes a tier on the GPUs of these numbers. The maker throws DeviceError where there is no such
// GPU, or the program was built without CUDA.
ItemTierMaker cuda_item_tier_maker(const std::vector<uint32_t>& gpus);

}  // namespace isotherm
