// The index of a store in the memory of a GPU, for code that no CUDA compiler sees.
//
// Two files define this: gpu/cuda_root_table.cu in the library of the GPU, and, weakly,
// gpu/no_cuda.cc in that of the host, which counts where the former is not linked.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/root_tier.h"

namespace isotherm {

// Makes tiers on the GPUs of these numbers that take at most `gpu_memory` bytes of each (0: no
// cap). The maker throws DeviceError where there is no such GPU, or the program was built without
// CUDA.
RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& gpus, uint64_t gpu_memory);

}  // namespace isotherm
