// PinnedGets: lookups whose keys and results lie in pinned host memory, at the speed of the bus.
//
// Parts take turns on a few streams of their own: keys are copied in, the kernel writes values of
// hits straight to host memory (so that misses leave it untouched), and the found bytes, whose
// writes would be too small for the bus, are copied out. So both directions of the bus and the
// device work at once. The caller's stream waits for all parts.
//
// Threads. One at a time. Memory. lanes × part_rows × 9 bytes of device memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/fixed_device_table.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class PinnedGets {
 public:
  using Stream = typename Device::Stream;
  static constexpr uint32_t lanes = 4;
  static constexpr uint64_t part_rows = 1 << 19;

  // Throws std::bad_alloc.
  PinnedGets(Device& device, Table& table)
      : device_(device), table_(table), memory_(device, 0), begun_(device.create_event()) {
    for (Lane& lane : lanes_) {
      lane.keys = {memory_, part_rows};
      lane.found = {memory_, part_rows};
      lane.stream = device.create_stream();
      lane.done = device.create_event();
    }
    for (const Lane& lane : lanes_) {
      if (!lane.keys.empty() && !lane.found.empty()) continue;
      release();
      throw std::bad_alloc();
    }
  }
  ~PinnedGets() { release(); }
  PinnedGets(const PinnedGets&) = delete;
  PinnedGets& operator=(const PinnedGets&) = delete;

  // `requests` are gets; all pointers to pinned memory.
  void run(const DeviceRequests& requests, Stream stream) {
    require_device(device_.record(begun_, stream), "record an event");
    for (Lane& lane : lanes_) {
      require_device(device_.wait(lane.stream, begun_), "wait for an earlier call");
    }
    uint32_t next = 0;
    for (uint64_t first = 0; first < requests.rows; first += part_rows) {
      part(lanes_[next], requests, first);
      next = (next + 1) % lanes;
    }
    for (Lane& lane : lanes_) {
      require_device(device_.record(lane.done, lane.stream) && device_.wait(stream, lane.done),
                     "wait for a part");
    }
  }

 private:
  struct Lane {
    DeviceArray<Device, uint64_t> keys;
    DeviceArray<Device, uint8_t> found;
    Stream stream{};
    typename Device::Event done{};
  };

  void part(Lane& lane, const DeviceRequests& requests, uint64_t first) {
    DeviceRequests part;
    part.rows = std::min(part_rows, requests.rows - first);
    part.keys = lane.keys.data();
    part.values_out = requests.values_out + first;
    part.found = lane.found.data();
    require_device(device_.to_device(lane.stream, lane.keys.data(), requests.keys + first,
                                     part.rows * sizeof(uint64_t)),
                   "copy keys");
    table_.run(part, lane.stream);
    require_device(
        device_.to_host(lane.stream, requests.found + first, lane.found.data(), part.rows),
        "copy replies");
  }

  void release() {
    for (Lane& lane : lanes_) {
      device_.synchronize(lane.stream);
      device_.destroy_stream(lane.stream);
      device_.destroy_event(lane.done);
    }
    device_.destroy_event(begun_);
  }

  Device& device_;
  Table& table_;
  DeviceMemory<Device> memory_;
  typename Device::Event begun_;
  Lane lanes_[lanes];
};

}  // namespace isotherm
