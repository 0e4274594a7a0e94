// gpu::Table::State: the GPUs and the table in their memory; apart from gpu_table.cu because a
// gpu::Queue works on the same table.
//
// Threads. Any.
#pragma once

#include <algorithm>
#include <thread>

#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/split/split_table.h"
#include "isotherm/gpu/table.h"

namespace isotherm::gpu {

struct Table::State : StoreOnGpus<SplitTable<CudaDevice>> {
  using Table = SplitTable<CudaDevice>;

  explicit State(const TableOptions& options)
      : StoreOnGpus(options.devices.empty() ? all_gpus() : options.devices, split(options),
                    options.expected_entries) {}

  static SplitOptions split(const TableOptions& options) {
    SplitOptions split;
    split.table.gpu_memory = options.gpu_memory;
    split.table.seed = seed_or_random(options.hash_seed);
    split.express = options.express;
    split.host_memory = options.host_index_memory;
    split.host_threads = options.host_threads != 0
                             ? options.host_threads
                             : std::max(std::thread::hardware_concurrency(), 1u);
    if (options.host_index_memory != 0)
      split.table.line_bits = shared_line_bits(options.gpu_memory);
    return split;
  }

  void run(const TableRequests& requests, Stream stream) {
    use([&](Table& its) { its.run(requests, stream); });
  }
  void run_host(const TableRequests& requests) {
    use([&](Table& its) { its.run_host(requests); });
  }
};

}  // namespace isotherm::gpu
