#include "device/cuda_root_table.h"
#include "device/gpu/cuda_device.cuh"
#include "device/gpu/cuda_setup.cuh"
#include "device/gpu/device_root_table.h"

namespace isotherm {
namespace {

// The table with the GPU that it lies on.
class CudaRootTable final : public RootTable {
 public:
  CudaRootTable(uint32_t gpu, uint64_t gpu_memory, uint64_t seed)
      : device_(usable_device(static_cast<int>(gpu))), table_(device_, {gpu_memory, seed}) {}

  const RootColumns& columns(uint64_t rows) override { return table_.columns(rows); }
  void find(uint64_t rows) override { table_.find(rows); }
  void change(uint64_t rows) override { table_.change(rows); }
  uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                const std::function<void(uint64_t key, Location root)>& visit) override {
    return table_.scan(bound, lines, wanted, visit);
  }
  void clear() override { table_.clear(); }
  uint64_t device_bytes() override { return table_.device_bytes(); }

 private:
  CudaDevice device_;
  DeviceRootTable<CudaDevice> table_;
};

}  // namespace

RootTableMaker cuda_root_table_maker(uint32_t gpu, uint64_t gpu_memory) {
  return [gpu, gpu_memory](uint64_t seed) -> std::unique_ptr<RootTable> {
    return std::make_unique<CudaRootTable>(gpu, gpu_memory, seed);
  };
}

}  // namespace isotherm
