// SplitGpu: a GPU of a table that lies on one or more, with its shard of the keys.
//
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/platform/device_error.h"
#include "gpu/table/fixed_device_table.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
struct SplitGpu {
  // The device has been entered.
  SplitGpu(Device& its_device, const FixedDeviceOptions& options)
      : device(its_device), memory(its_device, options.gpu_memory), table(memory, options) {}

  void enter() { require_device(device.enter(), "choose the GPU"); }

  Device& device;
  DeviceMemory<Device> memory;  // of the table and of the parts' buffers
  FixedDeviceTable<Device> table;
};

template <class Device>
using SplitGpus = std::vector<std::unique_ptr<SplitGpu<Device>>>;

inline void add_stats(gpu::TableStats& sum, const gpu::TableStats& its) {
  sum.entries += its.entries;
  sum.bytes += its.bytes;
  sum.workspace += its.workspace;
  sum.overflow_lines += its.overflow_lines;
  sum.segments += its.segments;
  sum.host_entries += its.host_entries;
  sum.host_bytes += its.host_bytes;
  sum.evictions += its.evictions;
}

template <class Device>
gpu::TableStats sum_of_stats(const SplitGpus<Device>& gpus) {
  gpu::TableStats sum;
  for (const auto& gpu : gpus) {
    gpu->enter();
    add_stats(sum, gpu->table.stats());
  }
  return sum;
}

}  // namespace isotherm
