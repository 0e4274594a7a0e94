#include "device/cuda_root_table.h"
#include "device/gpu/cuda_device.cuh"
#include "device/gpu/cuda_setup.cuh"
#include "device/gpu/device_root_table.h"

namespace isotherm {
namespace {

// Made before the table that lies on it.
struct OwnDevice {
  CudaDevice device;
};

class CudaRootTable final : OwnDevice, public DeviceRootTable<CudaDevice> {
 public:
  CudaRootTable(uint32_t gpu, uint64_t gpu_memory, uint64_t seed)
      : OwnDevice{usable_device(static_cast<int>(gpu))},
        DeviceRootTable(OwnDevice::device, {gpu_memory, seed}) {}
};

}  // namespace

RootTableMaker cuda_root_table_maker(uint32_t gpu, uint64_t gpu_memory) {
  return [gpu, gpu_memory](uint64_t seed) -> std::unique_ptr<RootTable> {
    return std::make_unique<CudaRootTable>(gpu, gpu_memory, seed);
  };
}

}  // namespace isotherm
