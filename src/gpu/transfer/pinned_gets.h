// PinnedGets: lookups whose keys and results lie in pinned host memory, at the speed of the bus.
//
// Parts take turns on a few streams of their own: keys are copied in, the kernel writes values of
// hits straight to host memory (so that misses leave it untouched), and the found bytes, whose
// writes would be too small for the bus, are copied out. So both directions of the bus and the
// device work at once. The caller's stream waits for all parts, and the host for none.
//
// Threads. One at a time. Memory. channels × part_rows × 9 bytes of device memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <new>

#include "gpu/platform/device_event.h"
#include "gpu/platform/device_stream.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/transfer/ring.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class PinnedGets {
 public:
  using Stream = typename Device::Stream;
  static constexpr uint32_t channels = 4;
  static constexpr uint64_t part_rows = 1 << 19;

  // Throws std::bad_alloc.
  PinnedGets(Device& device, Table& table)
      : device_(device), table_(table), memory_(device, 0), begun_(device) {
    for (uint32_t i = 0; i < channels; ++i) channels_.emplace_back(device, memory_);
  }
  ~PinnedGets() {
    for (const Channel& channel : channels_) device_.synchronize(channel.stream.get());
  }
  PinnedGets(const PinnedGets&) = delete;
  PinnedGets& operator=(const PinnedGets&) = delete;

  // `requests` are gets; all pointers to pinned memory.
  void run(const TableRequests& requests, Stream stream) {
    require_device(device_.record(begun_.get(), stream), "record an event");
    for (const Channel& channel : channels_) {
      require_device(device_.wait(channel.stream.get(), begun_.get()), "wait for an earlier call");
    }
    in_turns(
        parts_of(requests.rows, part_rows), channels, channels,
        [&](uint64_t part, uint64_t at) { queue(channels_[at], requests, part * part_rows); },
        [](uint64_t, uint64_t) {});
    for (const Channel& channel : channels_) {
      require_device(device_.record(channel.done.get(), channel.stream.get()) &&
                         device_.wait(stream, channel.done.get()),
                     "wait for a part");
    }
  }

 private:
  struct Channel {
    Channel(Device& device, DeviceMemory<Device>& memory)
        : keys(memory, part_rows), found(memory, part_rows), stream(device), done(device) {
      if (keys.empty() || found.empty()) throw std::bad_alloc();
    }

    const DeviceArray<Device, uint64_t> keys;
    const DeviceArray<Device, uint8_t> found;
    const DeviceStream<Device> stream;
    const DeviceEvent<Device> done;
  };

  void queue(const Channel& channel, const TableRequests& requests, uint64_t first) {
    const Stream stream = channel.stream.get();
    TableRequests part;
    part.rows = std::min(part_rows, requests.rows - first);
    part.keys = channel.keys.data();
    part.values_out = requests.values_out + first;
    part.found = channel.found.data();
    require_device(device_.to_device(stream, channel.keys.data(), requests.keys + first,
                                     part.rows * sizeof(uint64_t)),
                   "copy keys");
    table_.run(part, stream);
    require_device(device_.to_host(stream, requests.found + first, channel.found.data(), part.rows),
                   "copy replies");
  }

  Device& device_;
  Table& table_;
  DeviceMemory<Device> memory_;
  const DeviceEvent<Device> begun_;
  std::deque<Channel> channels_;
};

}  // namespace isotherm
