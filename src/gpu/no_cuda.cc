#include "gpu/cuda_root_table.h"
#include "gpu/device_error.h"

namespace isotherm {

// Weak: in whatever order a program names both libraries, the GPU's definition wins.
__attribute__((weak)) RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& /*gpus*/,
                                                           uint64_t /*gpu_memory*/) {
  return [](uint64_t) -> std::vector<std::unique_ptr<RootTier>> {
    throw DeviceError("this program was built without CUDA");
  };
}

}  // namespace isotherm
