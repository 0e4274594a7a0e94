#include "batch/table_queue.h"
#include "engine/gpu_table_state.cuh"
#include "isotherm/gpu/queue.h"

namespace isotherm::gpu {

struct Queue::State {
  // With a CudaDevice of its own, which keeps the driver's words of this queue's calls.
  State(const CudaDevice& of_table, SplitTable<CudaDevice>& table, const QueueOptions& options)
      : device(entered(of_table)), queue(device, table, options) {}
  ~State() { device.enter(); }

  static CudaDevice entered(CudaDevice device) {
    require_device(device.enter(), "choose the GPU");
    return device;
  }

  CudaDevice device;
  TableQueue<CudaDevice, SplitTable<CudaDevice>> queue;
};

Queue::Queue(Table& table, const QueueOptions& options)
    : state_(
          std::make_unique<State>(table.state_->first_device(), table.state_->store(), options)) {}
Queue::~Queue() = default;

QueueStatus Queue::submit(const TableRequests& requests, Completion& completion) {
  return state_->queue.submit(requests, completion);
}

QueueStats Queue::stats() const { return state_->queue.stats(); }

std::string Queue::failure() const { return state_->queue.failure(); }

}  // namespace isotherm::gpu
