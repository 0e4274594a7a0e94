// PinnedGets: lookups whose keys and results lie in pinned host memory, at the speed of the bus.
//
// Parts take turns on a few streams of their own: keys are copied in, the kernel writes values of
// hits straight to host memory (so that misses leave it untouched), and the found bytes, whose
// writes would be too small for the bus, are copied out. So both directions of the bus and the
// device work at once. The caller's stream waits for all parts.
//
// Threads. One at a time. Memory. channels × part_rows × 9 bytes of device memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/table/fixed_device_table.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class PinnedGets {
 public:
  using Stream = typename Device::Stream;
  static constexpr uint32_t channels = 4;
  static constexpr uint64_t part_rows = 1 << 19;

  // Throws std::bad_alloc.
  PinnedGets(Device& device, Table& table)
      : device_(device), table_(table), memory_(device, 0), begun_(device.create_event()) {
    for (Channel& channel : channels_) {
      channel.keys = {memory_, part_rows};
      channel.found = {memory_, part_rows};
      channel.stream = device.create_stream();
      channel.done = device.create_event();
    }
    for (const Channel& channel : channels_) {
      if (!channel.keys.empty() && !channel.found.empty()) continue;
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
    for (Channel& channel : channels_) {
      require_device(device_.wait(channel.stream, begun_), "wait for an earlier call");
    }
    uint32_t next = 0;
    for (uint64_t first = 0; first < requests.rows; first += part_rows) {
      part(channels_[next], requests, first);
      next = (next + 1) % channels;
    }
    for (Channel& channel : channels_) {
      require_device(
          device_.record(channel.done, channel.stream) && device_.wait(stream, channel.done),
          "wait for a part");
    }
  }

 private:
  struct Channel {
    DeviceArray<Device, uint64_t> keys;
    DeviceArray<Device, uint8_t> found;
    Stream stream{};
    typename Device::Event done{};
  };

  void part(Channel& channel, const DeviceRequests& requests, uint64_t first) {
    DeviceRequests part;
    part.rows = std::min(part_rows, requests.rows - first);
    part.keys = channel.keys.data();
    part.values_out = requests.values_out + first;
    part.found = channel.found.data();
    require_device(device_.to_device(channel.stream, channel.keys.data(), requests.keys + first,
                                     part.rows * sizeof(uint64_t)),
                   "copy keys");
    table_.run(part, channel.stream);
    require_device(
        device_.to_host(channel.stream, requests.found + first, channel.found.data(), part.rows),
        "copy replies");
  }

  void release() {
    for (Channel& channel : channels_) {
      device_.synchronize(channel.stream);
      device_.destroy_stream(channel.stream);
      device_.destroy_event(channel.done);
    }
    device_.destroy_event(begun_);
  }

  Device& device_;
  Table& table_;
  DeviceMemory<Device> memory_;
  typename Device::Event begun_;
  Channel channels_[channels];
};

}  // namespace isotherm
