#include "batch/table_queue.h"
#include "engine/device_table_state.cuh"
#include "isotherm/device_queue.h"

namespace isotherm {

struct DeviceQueue::State {
  // With a CudaDevice of its own, which keeps the driver's words of this queue's calls.
  State(const CudaDevice& of_table, SplitTable<CudaDevice>& table,
        const DeviceQueueOptions& options)
      : device(entered(of_table)), queue(device, table, options) {}
  ~State() { device.enter(); }

  static CudaDevice entered(CudaDevice device) {
    require_device(device.enter(), "choose the GPU");
    return device;
  }

  CudaDevice device;
  TableQueue<CudaDevice, SplitTable<CudaDevice>> queue;
};

DeviceQueue::DeviceQueue(DeviceTable& table, const DeviceQueueOptions& options)
    : state_(
          std::make_unique<State>(table.state_->first_device(), table.state_->store(), options)) {}
DeviceQueue::~DeviceQueue() = default;

QueueStatus DeviceQueue::submit(const DeviceRequests& requests, DeviceCompletion& completion) {
  return state_->queue.submit(requests, completion);
}

DeviceQueueStats DeviceQueue::stats() const { return state_->queue.stats(); }

std::string DeviceQueue::failure() const { return state_->queue.failure(); }

}  // namespace isotherm
