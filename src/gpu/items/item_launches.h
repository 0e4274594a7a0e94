// ItemLaunches: direct gets of a store of device items, on any device. Their order with writes is
// the store's (DeviceItemStore::read).
//
// Threads. As gpu/items/direct_launches.h. The store must outlive it.
#pragma once

#include <memory>

#include "gpu/items/device_item_store.h"
#include "gpu/items/direct_kernel.h"
#include "gpu/items/direct_launches.h"

namespace isotherm {

template <class Device>
class ItemLaunches final : public DirectLaunches<Device> {
 public:
  ItemLaunches(Device& device, DeviceItemStore<Device>& store)
      : DirectLaunches<Device>(device), store_(store) {}

 private:
  std::shared_ptr<const void> answer(typename Device::Stream stream,
                                     const DirectAsked& asked) override {
    store_.read(asked.rows(), stream, [&](const ItemLookup& items) {
      DirectGetKernel kernel;
      kernel.items = items;
      this->launch(stream, kernel, asked);
    });
    return nullptr;
  }
  void lose() override { store_.lose(); }

  DeviceItemStore<Device>& store_;
};

}  // namespace isotherm
