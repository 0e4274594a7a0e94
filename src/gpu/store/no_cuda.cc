#include "gpu/platform/device_error.h"
#include "gpu/store/cuda_item_tier.h"
#include "gpu/store/cuda_root_table.h"
#include "gpu/store/cuda_sorted_tier.h"

namespace isotherm {

// Weak: in whatever order a program names both libraries, the GPU's definitions win.
__attribute__((weak)) RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& /*gpus*/,
                                                           uint64_t /*gpu_memory*/) {
  return [](uint64_t) -> std::vector<std::unique_ptr<RootTier>> {
    throw DeviceError("this program was built without CUDA");
  };
}

__attribute__((weak)) ItemTierMaker cuda_item_tier_maker(const std::vector<uint32_t>& /*gpus*/) {
  return [](const ItemTierOptions&) -> std::unique_ptr<ItemTier> {
    throw DeviceError("this program was built without CUDA");
  };
}

__attribute__((weak)) SortedTierMaker cuda_sorted_tier_maker(uint32_t /*gpu*/) {
  return [](const SortedTierOptions&) -> std::unique_ptr<SortedTier> {
    throw DeviceError("this program was built without CUDA");
  };
}

}  // namespace isotherm
