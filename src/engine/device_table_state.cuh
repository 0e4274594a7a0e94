// DeviceTable::State: the GPUs and the table in their memory; apart from device_table.cu because a
// DeviceQueue works on the same table.
//
// Threads. Any.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/split/split_table.h"
#include "isotherm/device_table.h"

namespace isotherm {

struct DeviceTable::State {
  using Table = SplitTable<CudaDevice>;

  explicit State(const DeviceTableOptions& options) {
    const KeepGpu keep;
    std::vector<CudaDevice*> pointers;
    for (const int gpu : options.devices.empty() ? all_gpus() : options.devices) {
      pointers.push_back(&devices.emplace_back(usable_device(gpu)));
    }
    table.emplace(pointers, split(options));
    if (options.expected_entries == 0) return;
    try {
      table->reserve(options.expected_entries);
    } catch (...) {
      table.reset();  // while the GPU is kept
      throw;
    }
  }
  ~State() {
    const KeepGpu keep;
    table.reset();
  }

  static std::vector<int> all_gpus() {
    std::vector<int> gpus;
    for (int gpu = 0; gpu < gpu_count(); ++gpu) gpus.push_back(gpu);
    // Without any the first one says why.
    return gpus.empty() ? std::vector<int>{0} : gpus;
  }

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

  template <class Work>
  void use(Work&& work) {
    const KeepGpu keep;
    work(*table);
  }
  void run(const DeviceRequests& requests, Stream stream) {
    use([&](Table& its) { its.run(requests, stream); });
  }
  void run_host(const DeviceRequests& requests) {
    use([&](Table& its) { its.run_host(requests); });
  }

  std::deque<CudaDevice> devices;
  std::optional<Table> table;
};

}  // namespace isotherm
