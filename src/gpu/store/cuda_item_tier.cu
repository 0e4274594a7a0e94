#include <deque>
#include <vector>

#include "gpu/items/item_options.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/store/cuda_item_tier.h"
#include "gpu/store/device_item_tier.h"

namespace isotherm {
namespace {

// Made before the tier that lies on them.
struct TierDevices {
  explicit TierDevices(const std::vector<uint32_t>& gpus) {
    for (const uint32_t gpu : gpus) {
      chosen.push_back(&devices.emplace_back(usable_device(static_cast<int>(gpu))));
    }
  }
  std::deque<CudaDevice> devices;
  std::vector<CudaDevice*> chosen;
};

class CudaItemTier final : TierDevices, public DeviceItemTier<CudaDevice> {
 public:
  CudaItemTier(const std::vector<uint32_t>& gpus, const DeviceItemOptions& options)
      : TierDevices(gpus), DeviceItemTier(chosen, options) {}
};

}  // namespace

ItemTierMaker cuda_item_tier_maker(const std::vector<uint32_t>& gpus) {
  return [gpus](const ItemTierOptions& options) {
    gpu::ItemTableOptions its;
    its.gpu_memory = options.bytes;
    its.pinned_item_memory = options.host_bytes;
    its.evict = options.evicts;
    its.hash_seed = options.seed;
    return std::make_unique<CudaItemTier>(gpus, device_item_options(its));
  };
}

}  // namespace isotherm
