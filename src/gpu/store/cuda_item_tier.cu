#include "gpu/items/item_options.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/store/cuda_item_tier.h"
#include "gpu/store/device_item_tier.h"

namespace isotherm {
namespace {

// Made before the tier that lies on it.
struct TierDevice {
  CudaDevice device;
};

class CudaItemTier final : TierDevice, public DeviceItemTier<CudaDevice> {
 public:
  CudaItemTier(uint32_t gpu, const DeviceItemOptions& options)
      : TierDevice{usable_device(static_cast<int>(gpu))},
        DeviceItemTier(TierDevice::device, options) {}
};

}  // namespace

ItemTierMaker cuda_item_tier_maker(uint32_t gpu) {
  return [gpu](const ItemTierOptions& options) {
    gpu::ItemTableOptions its;
    its.gpu_memory = options.bytes;
    its.evict = options.evicts;
    its.hash_seed = options.seed;
    return std::make_unique<CudaItemTier>(gpu, device_item_options(its));
  };
}

}  // namespace isotherm
