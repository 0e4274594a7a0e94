// Runs the checks of tables of items, and of packets about them, on the GPU; without one it says so
// and succeeds.
//
//   device_item_test [rows of a large batch]
#include "cuda/gpu_checks.h"
#include "device_checks/device_item_churn_checks.h"
#include "device_checks/device_item_host_checks.h"
#include "device_checks/device_item_size_checks.h"
#include "device_checks/device_item_version_checks.h"
#include "device_checks/packet_checks.h"

int main(int argc, char** argv) {
  using namespace isotherm;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 1 << 15);
  checks.run_all(device_item_checks<CudaDevice>);
  checks.run_all(device_item_churn_checks<CudaDevice>);
  checks.run_all(device_item_host_checks<CudaDevice>);
  checks.run_all(device_item_size_checks<CudaDevice>);
  checks.run_all(device_item_version_checks<CudaDevice>);
  checks.run_all(packet_checks<CudaDevice>);
  return checks.end();
}
