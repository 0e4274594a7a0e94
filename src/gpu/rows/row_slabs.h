// RowSlabs: the memory that the rows of a row table lie in, on the device or behind it on the host.
//
// Slabs lie in device memory as long as it has room, and then in pinned memory of the host, which
// kernels reach by the same pointers. What finds rows, the index and the lists, lies on the device
// whatever happens. Where that has no room to grow, and the host has some, the newest slab of the
// device moves to the host: its rows are copied, and its entry in the table of slabs is written
// anew, so numbers of rows stay as they are. Slabs never come back.
//
// Threads. One at a time, in the order of the stream. Limits. 2^16 slabs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "gpu/platform/device_memory.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

template <class Device>
class RowSlabs {
 public:
  using Stream = typename Device::Stream;
  static constexpr uint64_t most_slabs = 1 << 16;

  // `host_memory`: bytes; 0: none. Throws std::bad_alloc.
  RowSlabs(DeviceMemory<Device>& memory, uint64_t host_memory)
      : memory_(memory),
        device_(memory.device()),
        host_(device_, host_memory, MemorySide::host),
        host_has_room_(host_memory != 0),
        table_(memory, most_slabs),
        entry_(device_, sizeof(Entry)) {
    if (host_has_room_) on_host_ = DeviceArray<Device, uint8_t>(memory, most_slabs);
    if (table_.empty() || (host_has_room_ && on_host_.empty())) throw std::bad_alloc();
  }

  char* const* table() const { return table_.data(); }
  // Of each slab whether it lies on the host; null where none may.
  const uint8_t* on_host() const { return on_host_.data(); }
  uint64_t host_bytes() const { return host_.used(); }
  // Whether the host may have room for more.
  bool host_has_room() const { return host_has_room_; }

  // Rows of `row_bytes` that memory has room for, beside `beside` bytes of the device for each; 0
  // where it has none for `slab` bytes.
  uint64_t possible(uint64_t slab, uint64_t row_bytes, uint64_t beside) const {
    const uint64_t left = memory_.left();
    const uint64_t host = host_has_room_ ? host_.left() : 0;
    if (left < slab && host < slab) return 0;
    return std::min((left + host) / (row_bytes + beside),
                    (left + std::min(device_bytes_, host)) / beside);
  }

  // Adds a slab; false where there is no room.
  bool add(uint64_t bytes, Stream stream) {
    if (slabs_.size() == most_slabs) return false;
    DeviceArray<Device, char> slab(memory_, bytes);
    const bool on_device = !slab.empty();
    if (!on_device && !make_on_host(slab, bytes)) return false;
    enter(slabs_.size(), slab, !on_device, stream);
    if (on_device) {
      device_bytes_ += bytes;
      on_device_.push_back(slabs_.size());
    }
    slabs_.push_back(std::move(slab));
    return true;
  }

  // The newest slab of the device goes to the host; false where there is none, or no room for it.
  bool move_to_host(Stream stream) {
    DeviceArray<Device, char> there;
    if (on_device_.empty()) return false;
    const uint64_t number = on_device_.back();
    DeviceArray<Device, char>& slab = slabs_[number];
    if (!make_on_host(there, slab.bytes())) return false;
    require_device(device_.to_host(stream, there.data(), slab.data(), slab.bytes()) &&
                       device_.synchronize(stream),
                   "move rows to the host");
    enter(number, there, true, stream);
    device_bytes_ -= slab.bytes();
    on_device_.pop_back();
    slab = std::move(there);
    return true;
  }

 private:
  struct Entry {
    char* at;
    uint8_t on_host;
  };

  // What the system does not give counts as full from then on.
  bool make_on_host(DeviceArray<Device, char>& slab, uint64_t bytes) {
    if (host_has_room_) slab = DeviceArray<Device, char>(host_, bytes);
    host_has_room_ = !slab.empty();
    return host_has_room_;
  }

  // Waits for the stream.
  void enter(uint64_t number, const DeviceArray<Device, char>& slab, bool on_host, Stream stream) {
    auto* const entry = new (entry_.data()) Entry{slab.data(), on_host};
    require_device(
        device_.to_device(stream, table_.data() + number, &entry->at, sizeof entry->at) &&
            (on_host_.empty() ||
             device_.to_device(stream, on_host_.data() + number, &entry->on_host, 1)) &&
            device_.synchronize(stream),
        "enter a slab of rows");
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  DeviceMemory<Device> host_;
  bool host_has_room_;
  uint64_t device_bytes_ = 0;  // of slabs there
  std::vector<uint64_t> on_device_;
  std::vector<DeviceArray<Device, char>> slabs_;
  DeviceArray<Device, char*> table_;
  DeviceArray<Device, uint8_t> on_host_;
  const PinnedBlock<Device> entry_;
};

}  // namespace isotherm
