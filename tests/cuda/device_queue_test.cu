// Runs the checks of queues on the GPU; without one it says so and succeeds.
//
//   device_queue_test [submissions of a thread]
#include "cuda/gpu_checks.h"
#include "device_checks/table_queue_checks.h"
#include "isotherm/device_queue.h"

namespace isotherm::device_queue_test {
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

}  // namespace
}  // namespace isotherm::device_queue_test

int main(int argc, char** argv) {
  using namespace isotherm;
  using namespace device_queue_test;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 5000);
  checks.run_all(table_queue_checks<CudaDevice>);
  checks.run("queue of a DeviceTable", check_device_queue);
  return checks.end();
}
