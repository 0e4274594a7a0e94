// DeviceTable::State: the GPU, the table in its memory, and the ways of host arrays to it; apart
// from device_table.cu because a DeviceQueue works on the same table.
//
// Threads. The table takes any; pipeline_mutex orders the users of the host arrays' ways.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "base/lazily_made.h"
#include "gpu/awaited_gets.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_setup.cuh"
#include "gpu/host_pipeline.h"
#include "gpu/pinned_gets.h"
#include "gpu/tiered_table.h"
#include "isotherm/device_table.h"

namespace isotherm {

struct DeviceTable::State {
  using Table = TieredTable<CudaDevice>;

  explicit State(const DeviceTableOptions& options)
      : device(usable_device(options.device)),
        table(device, tiered(options)),
        express(options.express) {
    if (options.expected_entries != 0) table.reserve(options.expected_entries);
  }
  ~State() { device.enter(); }

  static TieredOptions tiered(const DeviceTableOptions& options) {
    TieredOptions tiered;
    tiered.table.gpu_memory = options.gpu_memory;
    tiered.table.seed = seed_or_random(options.hash_seed);
    tiered.host_memory = options.host_memory;
    tiered.host_threads = options.host_threads != 0
                              ? options.host_threads
                              : std::max(std::thread::hardware_concurrency(), 1u);
    if (options.host_memory != 0) tiered.table.line_bits = shared_line_bits(options.gpu_memory);
    return tiered;
  }

  void run(const DeviceRequests& requests, Stream stream) {
    require_device(device.enter(), "choose the GPU");
    table.run(requests, stream);
  }

  void run_host(const DeviceRequests& requests) {
    require_device(device.enter(), "choose the GPU");
    if (express && table.express(requests)) return;
    const std::lock_guard guard(pipeline_mutex);
    if (is_pinned_gets(requests)) {
      if (auto* gets = made(awaited_gets)) return gets->run(requests);
    }
    if (!pipeline) pipeline.emplace(device, table);
    pipeline->run(requests);
  }
  bool is_pinned_gets(const DeviceRequests& requests) {
    const uint64_t words = requests.rows * sizeof(uint64_t);
    return is_gets(requests) && device.is_pinned(requests.keys, words) &&
           device.is_pinned(requests.values_out, words) &&
           device.is_pinned(requests.found, requests.rows);
  }

  void get_pinned(const DeviceRequests& requests, Stream stream) {
    require_device(device.enter(), "choose the GPU");
    const std::lock_guard guard(pipeline_mutex);
    if (auto* gets = made(pinned_gets)) return gets->run(requests, stream);
    table.run(requests, stream);  // more slowly
  }
  // Null without memory for its lanes, which a table that may fill the GPU leaves nobody.
  template <class Gets>
  Gets* made(LazilyMade<Gets>& gets) {
    return gets.get([&] { table.end_express(); }, device, table);
  }

  CudaDevice device;
  Table table;
  const bool express;
  std::mutex pipeline_mutex;
  std::optional<HostPipeline<CudaDevice, Table>> pipeline;  // made when first needed
  LazilyMade<PinnedGets<CudaDevice, Table>> pinned_gets;
  LazilyMade<AwaitedGets<CudaDevice, Table>> awaited_gets;
};

}  // namespace isotherm
