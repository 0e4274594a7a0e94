// What the library of the package's GPU part gives the extension that loads it (gpu_loader.h).
#include "engine/gpu_part.h"

extern "C" __attribute__((visibility("default"))) isotherm::GpuPart* isotherm_gpu_part_5() {
  return &isotherm::cuda_gpu_part();
}
