// DeviceDirectGets: DirectGets over a store of device items, on any device.
//
// Keys are copied to the device, whose lanes read each twice; replies are written by the kernel to
// pinned memory, over the bus. Each has a stream of its own, so those of several threads overlap;
// their order with writes is the store's (DeviceItemStore::read).
//
// Threads. One at a time. The store must outlive it. Errors. std::bad_alloc without memory.
#pragma once

#include <cstdint>

#include "gpu/items/device_item_store.h"
#include "gpu/items/direct_gets.h"
#include "gpu/items/direct_kernel.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"

namespace isotherm {

template <class Device>
class DeviceDirectGets final : public DirectGets {
 public:
  DeviceDirectGets(Device& device, DeviceItemStore<Device>& store, const DirectShape& shape)
      : device_(device),
        store_(store),
        shape_(shape),
        memory_(device, 0),
        asked_(memory_, ends_bytes() + shape.key_room),
        pinned_(device, ends_bytes() + shape.key_room + uint64_t{shape.rows} * shape.stride),
        stream_(device) {
    if (asked_.empty()) throw std::bad_alloc();
    columns_.key_ends = reinterpret_cast<uint32_t*>(pinned_.data());
    columns_.keys = pinned_.data() + ends_bytes();
    columns_.replies = columns_.keys + shape.key_room;
    columns_.key_ends[0] = 0;
  }
  ~DeviceDirectGets() override {
    device_.enter();
    device_.synchronize(stream_.get());
  }

  const DirectShape& shape() const override { return shape_; }
  const DirectColumns& columns() const override { return columns_; }
  uint64_t pinned_bytes() const override { return pinned_.bytes(); }

  void start(uint32_t rows) override {
    device_.enter();
    const auto stream = stream_.get();
    const uint64_t bytes = ends_bytes() + columns_.key_ends[rows];
    require_device(device_.to_device(stream, asked_.data(), pinned_.data(), bytes), "copy keys");
    store_.read(rows, stream, [&](const ItemLookup& items) {
      DirectGetKernel kernel;
      kernel.items = items;
      kernel.key_ends = reinterpret_cast<const uint32_t*>(asked_.data());
      kernel.keys = asked_.data() + ends_bytes();
      kernel.replies = const_cast<char*>(columns_.replies);
      kernel.stride = shape_.stride;
      kernel.rows = rows;
      const uint32_t blocks = grid_for(device_, rows, DirectGetKernel::threads);
      require_device(device_.launch(stream, blocks, DirectGetKernel::threads, kernel),
                     "launch direct gets");
    });
  }
  void wait() override {
    device_.enter();
    require_device(device_.synchronize(stream_.get()), "wait for direct gets");
  }

 private:
  uint64_t ends_bytes() const { return (uint64_t{shape_.rows} + 1 + 3) / 4 * 4 * sizeof(uint32_t); }

  Device& device_;
  DeviceItemStore<Device>& store_;
  const DirectShape shape_;
  DeviceMemory<Device> memory_;
  DeviceArray<Device, char> asked_;  // the columns of keys
  PinnedBlock<Device> pinned_;
  DeviceStream<Device> stream_;
  DirectColumns columns_;
};

}  // namespace isotherm
