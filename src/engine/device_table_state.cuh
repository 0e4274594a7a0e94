// DeviceTable::State: the GPU, the table in its memory, and the ways of host arrays to it; apart
// from device_table.cu because a DeviceQueue works on the same table.
//
// Threads. The table takes any; pipeline_mutex orders the users of the host arrays' ways.
#pragma once

#include <mutex>
#include <optional>

#include "device/gpu/cuda_device.cuh"
#include "device/gpu/cuda_setup.cuh"
#include "device/gpu/fixed_device_table.h"
#include "device/gpu/host_pipeline.h"
#include "device/gpu/pinned_gets.h"
#include "isotherm/device_table.h"

namespace isotherm {

struct DeviceTable::State {
  explicit State(const DeviceTableOptions& options)
      : device(usable_device(options.device)),
        table(device, {options.gpu_memory, seed_or_random(options.hash_seed)}),
        express(options.express) {
    if (options.expected_entries != 0) table.reserve(options.expected_entries);
  }
  ~State() { device.enter(); }

  void run(const DeviceRequests& requests, Stream stream) {
    require_device(device.enter(), "choose the GPU");
    table.run(requests, stream);
  }

  void run_host(const DeviceRequests& requests) {
    require_device(device.enter(), "choose the GPU");
    if (express && table.express(requests)) return;
    const std::lock_guard guard(pipeline_mutex);
    if (!pipeline) pipeline.emplace(device, table);
    pipeline->run(requests);
  }

  void get_pinned(const DeviceRequests& requests, Stream stream) {
    require_device(device.enter(), "choose the GPU");
    const std::lock_guard guard(pipeline_mutex);
    if (!pinned_gets) pinned_gets.emplace(device, table);
    pinned_gets->run(requests, stream);
  }

  CudaDevice device;
  FixedDeviceTable<CudaDevice> table;
  const bool express;
  std::mutex pipeline_mutex;
  std::optional<HostPipeline<CudaDevice>> pipeline;  // made when first needed
  std::optional<PinnedGets<CudaDevice>> pinned_gets;
};

}  // namespace isotherm
