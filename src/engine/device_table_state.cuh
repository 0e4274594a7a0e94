// DeviceTable::State: the GPUs and the table in their memory; apart from device_table.cu because a
// DeviceQueue works on the same table.
//
// Threads. Any.
#pragma once

#include <algorithm>
#include <thread>

#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/split/split_table.h"
#include "isotherm/device_table.h"

namespace isotherm {

struct DeviceTable::State : StoreOnGpus<SplitTable<CudaDevice>> {
  using Table = SplitTable<CudaDevice>;

  explicit State(const DeviceTableOptions& options)
      : StoreOnGpus(options.devices.empty() ? all_gpus() : options.devices, split(options),
                    options.expected_entries) {}

  static SplitOptions split(const DeviceTableOptions& options) {
    SplitOptions split;
    split.table.gpu_memory = options.gpu_memory;
    split.table.seed = seed_or_random(options.hash_seed);
    split.express = options.express;
    split.host_memory = options.host_memory;
    split.host_threads = options.host_threads != 0
                             ? options.host_threads
                             : std::max(std::thread::hardware_concurrency(), 1u);
    if (options.host_memory != 0) split.table.line_bits = shared_line_bits(options.gpu_memory);
    return split;
  }

  void run(const DeviceRequests& requests, Stream stream) {
    use([&](Table& its) { its.run(requests, stream); });
  }
  void run_host(const DeviceRequests& requests) {
    use([&](Table& its) { its.run_host(requests); });
  }
};

}  // namespace isotherm
