// Runs the checks of queues on the GPU; without one it says so and succeeds.
//
//   device_queue_test [submissions of a thread]
#include <cstdio>
#include <cstdlib>

#include "batch/table_queue_checks.h"
#include "device/gpu/cuda_device.cuh"
#include "isotherm/device_queue.h"

namespace isotherm {
namespace {

// The public class: what is put through the queue is in the table, and the other way round.
uint64_t check_device_queue(CudaDevice& /*device*/, uint64_t scale) {
  DeviceTable table;
  std::vector<uint64_t> keys(scale), values(scale), values_out(scale);
  std::vector<uint8_t> found(scale, 77);
  for (uint64_t i = 0; i < scale; ++i) {
    keys[i] = i;
    values[i] = i * 3;
  }
  {
    DeviceQueue queue(table);
    DeviceRequests puts;
    puts.rows = scale;
    puts.op = DeviceOp::put;
    puts.keys = keys.data();
    puts.values = values.data();
    DeviceCompletion completion;
    if (queue.submit(puts, completion) != QueueStatus::ok) return 1;
  }
  table.get(keys, values_out, found);
  uint64_t wrong = values_out == values ? 0 : 1;
  values_out.assign(scale, 0);
  DeviceQueue queue(table);
  DeviceRequests gets;
  gets.rows = scale;
  gets.keys = keys.data();
  gets.values_out = values_out.data();
  gets.found = found.data();
  DeviceCompletion completion;
  if (queue.submit(gets, completion) != QueueStatus::ok) ++wrong;
  if (completion.wait() != QueueStatus::ok) ++wrong;
  if (values_out != values || queue.failure() != "") ++wrong;
  return wrong;
}

template <class Check>
bool run(const char* name, const Check& check, CudaDevice& device, uint64_t scale) {
  uint64_t wrong = 1;
  try {
    wrong = check(device, scale);
  } catch (const std::exception& error) {
    std::printf("  %s %s\n", error.what(), device.error().c_str());
  }
  std::printf("%s: %s\n", name, wrong == 0 ? "passed" : "FAILED");
  std::fflush(stdout);
  return wrong == 0;
}

int run_all(CudaDevice& device, uint64_t scale) {
  int passed = 0;
  int failed = 0;
  for (const auto& check : table_queue_checks<CudaDevice>) {
    ++(run(check.name, check.run, device, scale) ? passed : failed);
  }
  ++(run("queue of a DeviceTable", check_device_queue, device, scale) ? passed : failed);
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
  return isotherm::run_all(device, argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000);
}
