// gpu::ItemTable::State: the GPU and the store in its memory; apart from gpu_item_table.cu
// because DevicePackets are answered from the same store.
//
// Threads. Any.
#pragma once

#include "gpu/items/item_options.h"
#include "gpu/items/split_item_store.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "isotherm/gpu/item_table.h"

namespace isotherm::gpu {

struct ItemTable::State : StoreOnGpus<SplitItemStore<CudaDevice>> {
  explicit State(const ItemTableOptions& options)
      : StoreOnGpus(options.devices.empty() ? all_gpus() : options.devices,
                    device_item_options(options), options.expected_entries) {}
};

}  // namespace isotherm::gpu
