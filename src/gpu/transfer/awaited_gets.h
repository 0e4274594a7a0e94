// AwaitedGets: lookups from and to pinned host memory that the caller waits for, at the speed of
// the bus's copies.
//
// Parts go through streams: keys are copied in, looked up into device memory, and replies are
// copied out, so both directions of the bus and the device work at once. The caller's thread looks
// at each part between lookup and copy. Where all keys were found, the usual case, or none, it sets
// the found bytes itself, so that only 8 bytes a row cross the bus each way, or none on the way
// out. Where some were missed, whose values stay untouched, a kernel writes the values of hits over
// the bus. That is as fast for a few of either; where many alternate, each value crosses by itself,
// so the parts after such a one are looked up over the caller's values, which come in with the keys
// and go back with those that were found, until several in a row were not like it.
// (gpu/transfer/pinned_gets.h waits for nothing; there the lookup writes the values of hits over
// the bus.)
//
// Order. Each part is looked up once, in the order of the rows.
//
// Threads. One at a time. Memory. channels × part_rows × 17 bytes of device memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>

#include "gpu/platform/device_event.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/transfer/copy_hits_kernel.h"
#include "gpu/transfer/count_misses_kernel.h"
#include "gpu/transfer/ring.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class AwaitedGets {
 public:
  static constexpr uint64_t usual_part_rows = 1 << 19;

  // Throws std::bad_alloc.
  AwaitedGets(Device& device, Table& table, uint64_t part_rows = usual_part_rows)
      : device_(device),
        table_(table),
        most_part_rows_(part_rows),
        memory_(device, 0),
        misses_(device, channels * sizeof(uint64_t)),
        in_(device),
        out_(device) {
    auto* misses = reinterpret_cast<uint64_t*>(misses_.data());
    for (uint32_t i = 0; i < channels; ++i) {
      channels_.emplace_back(device, memory_, part_rows, misses + i);
    }
  }
  AwaitedGets(const AwaitedGets&) = delete;
  AwaitedGets& operator=(const AwaitedGets&) = delete;

  // `requests` are gets; all pointers to pinned memory. Returns when the replies are there. Throws
  // DeviceError; nothing is under way then.
  void run(const TableRequests& requests) {
    try {
      work_off(requests);
      require_device(device_.synchronize(out_.get()), "wait for replies");
    } catch (...) {
      drain();
      throw;
    }
  }

 private:
  static constexpr uint32_t channels = 4;
  static constexpr uint64_t one_in_few = 64;     // misses, or hits, of so many rows are few
  static constexpr uint32_t dense_in_a_row = 8;  // parts with more of both, expected after one

  struct Channel {
    Channel(Device& device, DeviceMemory<Device>& memory, uint64_t part_rows, uint64_t* its_misses)
        : keys(memory, part_rows),
          values(memory, part_rows),
          found(memory, part_rows),
          misses(its_misses),
          work(device),
          came(device),
          looked_up(device),
          left(device) {
      if (keys.empty() || values.empty() || found.empty()) throw std::bad_alloc();
    }

    const DeviceArray<Device, uint64_t> keys;
    const DeviceArray<Device, uint64_t> values;
    const DeviceArray<Device, uint8_t> found;
    uint64_t* const misses;  // of its part, in pinned memory
    const DeviceStream<Device> work;
    const DeviceEvent<Device> came;       // keys
    const DeviceEvent<Device> looked_up;  // and misses counted
    const DeviceEvent<Device> left;       // replies
    TableRequests rows;                   // of the caller
    bool over_values = false;             // the caller's came in
  };

  void work_off(const TableRequests& requests) {
    const uint64_t rows_each = part_rows(requests.rows);
    in_turns(
        parts_of(requests.rows, rows_each), channels, channels,
        [&](uint64_t part, uint64_t at) {
          const uint64_t first = part * rows_each;
          Channel& channel = channels_[at];
          channel.rows = rows_of(requests, first, std::min(rows_each, requests.rows - first));
          ask(channel, dense_ahead_ != 0);
        },
        [&](uint64_t, uint64_t at) { answer(channels_[at]); });
  }

  // So many parts, where rows are few, that copies and lookups overlap.
  uint64_t part_rows(uint64_t rows) const {
    constexpr uint64_t parts = 16;
    return std::clamp(std::bit_ceil(rows / parts + 1), most_part_rows_ / 8, most_part_rows_);
  }

  void ask(Channel& channel, bool over_values) {
    channel.over_values = over_values;
    const uint64_t bytes = channel.rows.rows * sizeof(uint64_t);
    copy_in(channel.keys.data(), channel.rows.keys, bytes);
    if (over_values) {
      require_device(device_.wait(in_.get(), channel.left.get()), "wait for an earlier part");
      copy_in(channel.values.data(), channel.rows.values_out, bytes);
    }
    require_device(device_.record(channel.came.get(), in_.get()) &&
                       device_.wait(channel.work.get(), channel.came.get()) &&
                       device_.wait(channel.work.get(), channel.left.get()),
                   "wait for a part's keys");
    TableRequests part;
    part.rows = channel.rows.rows;
    part.keys = channel.keys.data();
    part.values_out = channel.values.data();
    part.found = channel.found.data();
    table_.run(part, channel.work.get());
    const CountMissesKernel count{part.found, part.rows, channel.misses};
    require_device(device_.launch(channel.work.get(), 1, CountMissesKernel::threads, count) &&
                       device_.record(channel.looked_up.get(), channel.work.get()),
                   "count misses");
  }

  void answer(Channel& channel) {
    const uint64_t rows = channel.rows.rows;
    const uint64_t misses = wait_for(channel);
    const bool mixed = misses != 0 && misses != rows;
    const bool dense = std::min(misses, rows - misses) > rows / one_in_few;
    dense_ahead_ = dense ? dense_in_a_row : dense_ahead_ - std::min(dense_ahead_, 1u);
    if (mixed && !channel.over_values) {
      copy_hits(channel);
    } else if (misses != rows) {
      copy_out(channel.rows.values_out, channel.values.data(), rows * sizeof(uint64_t));
    }
    if (mixed) copy_out(channel.rows.found, channel.found.data(), rows);
    require_device(device_.record(channel.left.get(), out_.get()), "record an event");
    if (!mixed) std::memset(channel.rows.found, misses == 0 ? 1 : 0, rows);
  }

  // Returns the misses of the part.
  uint64_t wait_for(const Channel& channel) {
    require_device(device_.synchronize(channel.looked_up.get()), "wait for a part");
    return *channel.misses;
  }
  void copy_in(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_device(in_.get(), to, from, bytes), "copy requests");
  }
  void copy_hits(const Channel& channel) {
    constexpr uint32_t threads = 256;
    const uint64_t rows = channel.rows.rows;
    const CopyHitsKernel kernel{channel.values.data(), channel.found.data(), rows,
                                channel.rows.values_out};
    require_device(device_.launch(out_.get(), grid_for(device_, rows, threads), threads, kernel),
                   "copy values");
  }
  void copy_out(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_host(out_.get(), to, from, bytes), "copy replies");
  }

  void drain() {
    device_.synchronize(in_.get());
    for (const Channel& channel : channels_) device_.synchronize(channel.work.get());
    device_.synchronize(out_.get());
  }

  Device& device_;
  Table& table_;
  const uint64_t most_part_rows_;
  DeviceMemory<Device> memory_;
  PinnedBlock<Device> misses_;  // of each channel's last part
  const DeviceStream<Device> in_;
  const DeviceStream<Device> out_;
  uint32_t dense_ahead_ = 0;  // parts that are expected to have many hits and many misses
  std::deque<Channel> channels_;
};

}  // namespace isotherm
