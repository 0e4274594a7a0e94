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
  CudaRootTable(uint32_t gpu, const FixedDeviceOptions& options)
      : OwnDevice{usable_device(static_cast<int>(gpu))},
        DeviceRootTable(OwnDevice::device, options) {}
};

// Lines of a segment, as a power of two: a cap has room for at least some 256 segments, so that it
// can be shared with the host in fine parts.
int segment_line_bits_for(uint64_t gpu_memory) {
  constexpr int usual = 16;
  constexpr int least = 8;
  constexpr uint64_t segments = 256;
  if (gpu_memory == 0) return usual;
  int bits = usual;
  while (bits > least && (segments * sizeof(Bucket) << bits) > gpu_memory) --bits;
  return bits;
}

}  // namespace

RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& gpus, uint64_t gpu_memory) {
  return [gpus, gpu_memory](uint64_t seed) {
    const FixedDeviceOptions options{gpu_memory, seed, segment_line_bits_for(gpu_memory)};
    std::vector<std::unique_ptr<RootTier>> tiers;
    for (const uint32_t gpu : gpus) {
      tiers.push_back(std::make_unique<CudaRootTable>(gpu, options));
    }
    return tiers;
  };
}

}  // namespace isotherm
