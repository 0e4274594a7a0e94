// DeviceDirectGets: DirectGets over a store of device items, on any device.
//
// Their order with writes is the store's (DeviceItemStore::read).
//
// Threads. One at a time. The store must outlive it. Errors. std::bad_alloc without memory.
#pragma once

#include <cstdint>

#include "gpu/items/device_item_store.h"
#include "gpu/items/direct_get_columns.h"
#include "gpu/items/direct_kernel.h"

namespace isotherm {

template <class Device>
class DeviceDirectGets final : public DirectGetColumns<Device> {
 public:
  DeviceDirectGets(Device& device, DeviceItemStore<Device>& store, const DirectShape& shape)
      : DirectGetColumns<Device>(device, shape), store_(store) {}

  void start(uint32_t rows) override {
    this->device().enter();
    this->send_keys(rows);
    store_.read(rows, this->stream(), [&](const ItemLookup& items) {
      DirectGetKernel kernel;
      kernel.items = items;
      this->launch(kernel, rows);
    });
  }
  void wait() override { this->await_replies(); }

 private:
  DeviceItemStore<Device>& store_;
};

}  // namespace isotherm
