// Runs the checks of tables of items on the GPU; without one it says so and succeeds.
//
//   device_item_test [rows of a large batch]
#include <cstdio>
#include <cstdlib>

#include "device/gpu/cuda_device.cuh"
#include "device/gpu/device_item_checks.h"

namespace isotherm {
namespace {

int run_all(CudaDevice& device, uint64_t scale) {
  int passed = 0;
  int failed = 0;
  for (const auto& check : device_item_checks<CudaDevice>) {
    uint64_t wrong = 1;
    try {
      wrong = check.run(device, scale);
    } catch (const std::exception& error) {
      std::printf("  %s %s\n", error.what(), device.error().c_str());
    }
    ++(wrong == 0 ? passed : failed);
    std::printf("%s: %s\n", check.name, wrong == 0 ? "passed" : "FAILED");
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace isotherm

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU\n");
    return EXIT_SUCCESS;
  }
  isotherm::CudaDevice device(0);
  return isotherm::run_all(device, argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 15);
}
