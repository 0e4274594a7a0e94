// Runs the checks of device tables on the GPU; without one it says so and succeeds.
//
//   device_table_test [rows of a large batch]
#include <string>

#include "cuda/gpu_checks.h"
#include "device_checks/cache_checks.h"
#include "device_checks/device_churn_checks.h"
#include "device_checks/device_put_checks.h"
#include "device_checks/device_row_checks.h"
#include "device_checks/device_table_checks.h"
#include "device_checks/host_memory_checks.h"

namespace isotherm::device_table_test {
namespace {

// Checks of tables with another kind of index.
template <class Checks>
void run_kind(GpuChecks& checks, const std::string& kind, const Checks& of_kind) {
  for (const auto& check : of_kind) {
    checks.run((kind + ": " + check.name).c_str(), check.run);
  }
}

}  // namespace
}  // namespace isotherm::device_table_test

int main(int argc, char** argv) {
  using namespace isotherm;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 1 << 17);
  checks.run_all(device_table_checks<CudaDevice>);
  checks.run_all(device_put_checks<CudaDevice>);
  checks.run_all(device_churn_checks<CudaDevice>);
  checks.run_all(device_row_checks<CudaDevice>);
  checks.run_all(host_memory_checks<CudaDevice>);
  using device_table_test::run_kind;
  run_kind(checks, "cuckoo", cache_checks<CudaDevice, CuckooKind<>>);
  run_kind(checks, "set", cache_checks<CudaDevice, SetKind>);
  return checks.end();
}
