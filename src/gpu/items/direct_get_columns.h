// DirectGetColumns: what DirectGets have on any device, whatever answers them: the columns of keys,
// which are copied to the device, whose lanes read each twice; slots in pinned memory, to which the
// kernel writes over the bus; and a stream, so those of several threads overlap.
//
// Threads. One at a time. Errors. std::bad_alloc without memory.
#pragma once

#include <cstdint>
#include <new>

#include "gpu/items/direct_delivery.h"
#include "gpu/items/direct_gets.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

template <class Device>
class DirectGetColumns : public DirectGets {
 public:
  const DirectShape& shape() const final { return shape_; }
  const DirectColumns& columns() const final { return columns_; }
  uint64_t pinned_bytes() const final { return pinned_.bytes(); }

 protected:
  DirectGetColumns(Device& device, const DirectShape& shape)
      : device_(device),
        shape_(shape),
        memory_(device, 0),
        asked_(memory_, ends_bytes() + key_bytes()),
        pinned_(device, ends_bytes() + key_bytes() + uint64_t{shape.rows} * shape.stride),
        stream_(device) {
    if (asked_.empty()) throw std::bad_alloc();
    columns_.key_ends = reinterpret_cast<uint32_t*>(pinned_.data());
    columns_.keys = pinned_.data() + ends_bytes();
    columns_.replies = columns_.keys + key_bytes();
    columns_.key_ends[0] = 0;
  }
  ~DirectGetColumns() override { settle(); }

  Device& device() const { return device_; }
  typename Device::Stream stream() const { return stream_.get(); }

  void send_keys(uint32_t rows) {
    const uint64_t bytes = ends_bytes() + columns_.key_ends[rows];
    require_device(device_.to_device(stream(), asked_.data(), pinned_.data(), bytes), "copy keys");
  }
  // A kernel that has a member `asked`.
  template <class Kernel>
  void launch(Kernel kernel, uint32_t rows) {
    if (rows == 0) return;
    kernel.asked.key_ends = reinterpret_cast<const uint32_t*>(asked_.data());
    kernel.asked.keys = asked_.data() + ends_bytes();
    kernel.asked.rows = rows;
    kernel.asked.delivery = {const_cast<char*>(columns_.replies), shape_.stride};
    const uint32_t blocks = grid_for(device_, rows, Kernel::threads);
    require_device(device_.launch(stream(), blocks, Kernel::threads, kernel), "launch direct gets");
  }
  void await_replies() {
    device_.enter();
    require_device(device_.synchronize(stream()), "wait for direct gets");
  }
  // What was launched ends; a device that has failed has nothing left to wait for.
  void settle() {
    device_.enter();
    device_.synchronize(stream());
  }

 private:
  // Columns begin at multiples of 16.
  uint64_t ends_bytes() const {
    return units_of((uint64_t{shape_.rows} + 1) * sizeof(uint32_t)) * unit_bytes;
  }
  uint64_t key_bytes() const { return units_of(shape_.key_room) * unit_bytes; }

  Device& device_;
  const DirectShape shape_;
  DeviceMemory<Device> memory_;
  DeviceArray<Device, char> asked_;  // the columns of keys
  PinnedBlock<Device> pinned_;
  DeviceStream<Device> stream_;
  DirectColumns columns_;
};

}  // namespace isotherm
