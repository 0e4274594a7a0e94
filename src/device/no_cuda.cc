#include "device/cuda_root_table.h"
#include "device/gpu/device_error.h"

namespace isotherm {

RootTableMaker cuda_root_table_maker(uint32_t /*gpu*/, uint64_t /*gpu_memory*/) {
  return [](uint64_t) -> std::unique_ptr<RootTable> {
    throw DeviceError("this program was built without CUDA");
  };
}

}  // namespace isotherm
