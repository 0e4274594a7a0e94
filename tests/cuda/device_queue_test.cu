// Runs the checks of queues on the GPU; without one it says so and succeeds.
//
//   device_queue_test [submissions of a thread]
#include "cuda/gpu_checks.h"
#include "device_checks/table_queue_checks.h"
#include "isotherm/gpu/queue.h"

namespace isotherm::device_queue_test {
namespace {

// The public class: what is put through the queue is in the table, and the other way round.
uint64_t check_device_queue(CudaDevice& /*device*/, uint64_t scale) {
  gpu::Table table;
  std::vector<uint64_t> keys(scale), values(scale), values_out(scale);
  std::vector<uint8_t> found(scale, 77);
  for (uint64_t i = 0; i < scale; ++i) {
    keys[i] = i;
    values[i] = i * 3;
  }
  {
    gpu::Queue queue(table);
    TableRequests puts;
    puts.rows = scale;
    puts.op = TableOp::put;
    puts.keys = keys.data();
    puts.values = values.data();
    gpu::Completion completion;
    if (queue.submit(puts, completion) != gpu::QueueStatus::ok) return 1;
  }
  table.get(keys, values_out, found);
  uint64_t wrong = values_out == values ? 0 : 1;
  values_out.assign(scale, 0);
  gpu::Queue queue(table);
  TableRequests gets;
  gets.rows = scale;
  gets.keys = keys.data();
  gets.values_out = values_out.data();
  gets.found = found.data();
  gpu::Completion completion;
  if (queue.submit(gets, completion) != gpu::QueueStatus::ok) ++wrong;
  if (completion.wait() != gpu::QueueStatus::ok) ++wrong;
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
  checks.run("queue of a gpu::Table", check_device_queue);
  return checks.end();
}
