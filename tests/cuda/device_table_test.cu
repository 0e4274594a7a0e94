// Runs the checks of device tables on the GPU; without one it says so and succeeds.
//
//   device_table_test [rows of a large batch]
#include "cuda/gpu_checks.h"
#include "device_checks/device_churn_checks.h"
#include "device_checks/device_put_checks.h"
#include "device_checks/device_row_checks.h"
#include "device_checks/device_table_checks.h"
#include "device_checks/host_memory_checks.h"

int main(int argc, char** argv) {
  using namespace isotherm;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 1 << 17);
  checks.run_all(device_table_checks<CudaDevice>);
  checks.run_all(device_put_checks<CudaDevice>);
  checks.run_all(device_churn_checks<CudaDevice>);
  checks.run_all(device_row_checks<CudaDevice>);
  checks.run_all(host_memory_checks<CudaDevice>);
  return checks.end();
}
