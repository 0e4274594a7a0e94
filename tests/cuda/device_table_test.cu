// Runs the checks of device tables on the GPU; without one it says so and succeeds.
//
//   device_table_test [rows of a large batch]
#include <cstdio>
#include <cstdlib>

#include "device/gpu/cuda_device.cuh"
#include "device/gpu/device_row_checks.h"
#include "device/gpu/device_table_checks.h"

namespace isotherm {
namespace {

struct Counts {
  int passed = 0;
  int failed = 0;
};

template <class Checks>
void run_checks(const Checks& checks, CudaDevice& device, uint64_t scale, Counts& counts) {
  for (const auto& check : checks) {
    uint64_t wrong = 1;
    try {
      wrong = check.run(device, scale);
    } catch (const std::exception& error) {
      std::printf("  %s %s\n", error.what(), device.error().c_str());
    }
    ++(wrong == 0 ? counts.passed : counts.failed);
    std::printf("%s: %s\n", check.name, wrong == 0 ? "passed" : "FAILED");
    std::fflush(stdout);
  }
}

int run_all(CudaDevice& device, uint64_t scale) {
  Counts counts;
  run_checks(device_table_checks<CudaDevice>, device, scale, counts);
  run_checks(device_row_checks<CudaDevice>, device, scale, counts);
  std::printf("%d passed, %d failed\n", counts.passed, counts.failed);
  return counts.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
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
  return isotherm::run_all(device, argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1 << 17);
}
