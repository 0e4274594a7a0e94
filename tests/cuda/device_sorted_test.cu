// Runs the checks of sorted tiers on the GPU; without one it says so and succeeds.
//
//   device_sorted_test [pairs of a large put]
#include "cuda/gpu_checks.h"
#include "device_checks/sorted_checks.h"

int main(int argc, char** argv) {
  using namespace isotherm;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 1 << 12);
  checks.run_all(sorted_checks<CudaDevice>);
  return checks.end();
}
