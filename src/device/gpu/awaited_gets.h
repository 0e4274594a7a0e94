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
// (device/gpu/pinned_gets.h waits for nothing; there the lookup writes the values of hits over the
// bus.)
//
// Order. Each part is looked up once, in the order of the rows.
//
// Threads. One at a time. Memory. lanes × part_rows × 17 bytes of device memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>

#include "device/gpu/copy_hits_kernel.h"
#include "device/gpu/count_misses_kernel.h"
#include "device/gpu/fixed_device_table.h"
#include "device/gpu/pinned_block.h"

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
        misses_(device, lanes * sizeof(uint64_t)),
        in_(device.create_stream()),
        out_(device.create_stream()) {
    for (Lane& lane : lanes_) {
      lane.keys = {memory_, part_rows};
      lane.values = {memory_, part_rows};
      lane.found = {memory_, part_rows};
      lane.work = device.create_stream();
      lane.came = device.create_event();
      lane.looked_up = device.create_event();
      lane.left = device.create_event();
    }
    for (const Lane& lane : lanes_) {
      if (!lane.keys.empty() && !lane.values.empty() && !lane.found.empty()) continue;
      release();
      throw std::bad_alloc();
    }
  }
  ~AwaitedGets() { release(); }
  AwaitedGets(const AwaitedGets&) = delete;
  AwaitedGets& operator=(const AwaitedGets&) = delete;

  // `requests` are gets; all pointers to pinned memory. Returns when the replies are there. Throws
  // DeviceError; nothing is under way then.
  void run(const DeviceRequests& requests) {
    try {
      work_off(requests);
      require_device(device_.synchronize(out_), "wait for replies");
    } catch (...) {
      drain();
      throw;
    }
  }

 private:
  static constexpr uint32_t lanes = 4;
  static constexpr uint64_t one_in_few = 64;     // misses, or hits, of so many rows are few
  static constexpr uint32_t dense_in_a_row = 8;  // parts with more of both, expected after one

  struct Lane {
    DeviceArray<Device, uint64_t> keys;
    DeviceArray<Device, uint64_t> values;
    DeviceArray<Device, uint8_t> found;
    typename Device::Stream work{};
    typename Device::Event came{};       // keys
    typename Device::Event looked_up{};  // and misses counted
    typename Device::Event left{};       // replies
    DeviceRequests rows;                 // of the caller
    bool over_values = false;            // the caller's came in
  };

  void work_off(const DeviceRequests& requests) {
    const uint64_t rows_each = part_rows(requests.rows);
    const uint64_t parts = (requests.rows + rows_each - 1) / rows_each;
    for (uint64_t asked = 0, answered = 0; answered < parts;) {
      if (asked < parts && asked - answered < lanes) {
        const uint64_t first = asked * rows_each;
        Lane& lane = lanes_[asked++ % lanes];
        lane.rows = rows_of(requests, first, std::min(rows_each, requests.rows - first));
        ask(lane, dense_ahead_ != 0);
      } else {
        answer(lanes_[answered++ % lanes]);
      }
    }
  }

  // So many parts, where rows are few, that copies and lookups overlap.
  uint64_t part_rows(uint64_t rows) const {
    constexpr uint64_t parts = 16;
    return std::clamp(std::bit_ceil(rows / parts + 1), most_part_rows_ / 8, most_part_rows_);
  }

  void ask(Lane& lane, bool over_values) {
    lane.over_values = over_values;
    const uint64_t bytes = lane.rows.rows * sizeof(uint64_t);
    copy_in(lane.keys.data(), lane.rows.keys, bytes);
    if (over_values) {
      require_device(device_.wait(in_, lane.left), "wait for an earlier part");
      copy_in(lane.values.data(), lane.rows.values_out, bytes);
    }
    require_device(device_.record(lane.came, in_) && device_.wait(lane.work, lane.came) &&
                       device_.wait(lane.work, lane.left),
                   "wait for a part's keys");
    DeviceRequests part;
    part.rows = lane.rows.rows;
    part.keys = lane.keys.data();
    part.values_out = lane.values.data();
    part.found = lane.found.data();
    table_.run(part, lane.work);
    const CountMissesKernel count{part.found, part.rows, misses_of(lane)};
    require_device(device_.launch(lane.work, 1, CountMissesKernel::threads, count) &&
                       device_.record(lane.looked_up, lane.work),
                   "count misses");
  }

  void answer(Lane& lane) {
    const uint64_t rows = lane.rows.rows;
    const uint64_t misses = wait_for(lane);
    const bool mixed = misses != 0 && misses != rows;
    const bool dense = std::min(misses, rows - misses) > rows / one_in_few;
    dense_ahead_ = dense ? dense_in_a_row : dense_ahead_ - std::min(dense_ahead_, 1u);
    if (mixed && !lane.over_values) {
      copy_hits(lane);
    } else if (misses != rows) {
      copy_out(lane.rows.values_out, lane.values.data(), rows * sizeof(uint64_t));
    }
    if (mixed) copy_out(lane.rows.found, lane.found.data(), rows);
    require_device(device_.record(lane.left, out_), "record an event");
    if (!mixed) std::memset(lane.rows.found, misses == 0 ? 1 : 0, rows);
  }

  // Returns the misses of the part.
  uint64_t wait_for(const Lane& lane) {
    require_device(device_.synchronize(lane.looked_up), "wait for a part");
    return *misses_of(lane);
  }
  uint64_t* misses_of(const Lane& lane) const {
    return reinterpret_cast<uint64_t*>(misses_.data()) + (&lane - lanes_);
  }
  void copy_in(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_device(in_, to, from, bytes), "copy requests");
  }
  void copy_hits(const Lane& lane) {
    constexpr uint32_t threads = 256;
    const uint64_t rows = lane.rows.rows;
    const CopyHitsKernel kernel{lane.values.data(), lane.found.data(), rows, lane.rows.values_out};
    require_device(device_.launch(out_, grid_for(device_, rows, threads), threads, kernel),
                   "copy values");
  }
  void copy_out(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_host(out_, to, from, bytes), "copy replies");
  }

  void drain() {
    device_.synchronize(in_);
    for (const Lane& lane : lanes_) device_.synchronize(lane.work);
    device_.synchronize(out_);
  }

  void release() {
    drain();
    device_.destroy_stream(in_);
    device_.destroy_stream(out_);
    for (const Lane& lane : lanes_) {
      device_.destroy_stream(lane.work);
      device_.destroy_event(lane.came);
      device_.destroy_event(lane.looked_up);
      device_.destroy_event(lane.left);
    }
  }

  Device& device_;
  Table& table_;
  const uint64_t most_part_rows_;
  DeviceMemory<Device> memory_;
  PinnedBlock<Device> misses_;  // of each lane's last part
  typename Device::Stream in_;
  typename Device::Stream out_;
  uint32_t dense_ahead_ = 0;  // parts that are expected to have many hits and many misses
  Lane lanes_[lanes];
};

}  // namespace isotherm
