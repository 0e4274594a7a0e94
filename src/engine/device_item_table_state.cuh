// DeviceItemTable::State: the GPU and the store in its memory; apart from device_item_table.cu
// because DevicePackets are answered from the same store.
//
// Threads. Any.
#pragma once

#include "gpu/items/device_item_store.h"
#include "gpu/items/item_options.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "isotherm/device_item_table.h"

namespace isotherm {

struct DeviceItemTable::State : StoreOnGpu<DeviceItemStore<CudaDevice>> {
  explicit State(const DeviceItemTableOptions& options)
      : StoreOnGpu(options.device, device_item_options(options), options.expected_entries) {}
};

}  // namespace isotherm
