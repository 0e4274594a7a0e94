// The index of a store in the memory of a GPU, for code that no CUDA compiler sees.
//
// Two files define this: device/gpu/cuda_root_table.cu in the library of the GPU, and
// device/no_cuda.cc in that of the host, which the linker takes where the former is not linked.
#pragma once

#include <cstdint>

#include "device/root_table.h"

namespace isotherm {

// Makes root tables on GPU number `gpu` that take at most `gpu_memory` bytes of it (0: no cap). The
// maker throws DeviceError where there is no such GPU, or the program was built without CUDA.
RootTableMaker cuda_root_table_maker(uint32_t gpu, uint64_t gpu_memory);

}  // namespace isotherm
