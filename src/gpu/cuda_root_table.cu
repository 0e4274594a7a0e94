#include "gpu/cuda_device.cuh"
#include "gpu/cuda_root_table.h"
#include "gpu/cuda_setup.cuh"
#include "gpu/device_root_table.h"

namespace isotherm {
namespace {

// Made before the table that lies on it.
struct OwnDevice {
  CudaDevice device;
};

class CudaRootTable final : OwnDevice, public DeviceRootTable<CudaDevice> {
 public:
  CudaRootTable(uint32_t gpu, const FixedDeviceOptions& options)
      : OwnDevice{usable_device(static_cast<int>(gpu))},
        DeviceRootTable(OwnDevice::device, options) {}
};

}  // namespace

RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& gpus, uint64_t gpu_memory) {
  return [gpus, gpu_memory](uint64_t seed) {
    const FixedDeviceOptions options{gpu_memory, seed, shared_line_bits(gpu_memory)};
    std::vector<std::unique_ptr<RootTier>> tiers;
    for (const uint32_t gpu : gpus) {
      tiers.push_back(std::make_unique<CudaRootTable>(gpu, options));
    }
    return tiers;
  };
}

}  // namespace isotherm

// Programs that link this part ask for it by this name (cmake/IsothermCuda.cmake).
extern "C" {
extern const int isotherm_gpu_part;
const int isotherm_gpu_part = 1;
}
