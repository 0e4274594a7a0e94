#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/store/cuda_sorted_tier.h"
#include "gpu/store/device_sorted_tier.h"

namespace isotherm {
namespace {

// Made before the tier that lies on it.
struct SortedTierDevice {
  CudaDevice device;
};

class CudaSortedTier final : SortedTierDevice, public DeviceSortedTier<CudaDevice> {
 public:
  CudaSortedTier(uint32_t gpu, const SortedTierOptions& options)
      : SortedTierDevice{usable_device(static_cast<int>(gpu))},
        DeviceSortedTier(SortedTierDevice::device, options) {}
};

}  // namespace

SortedTierMaker cuda_sorted_tier_maker(uint32_t gpu) {
  return [gpu](const SortedTierOptions& options) {
    return std::make_unique<CudaSortedTier>(gpu, options);
  };
}

}  // namespace isotherm
