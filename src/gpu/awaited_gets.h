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
// (gpu/pinned_gets.h waits for nothing; there the lookup writes the values of hits over the
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
#include <deque>
#include <new>

#include "gpu/copy_hits_kernel.h"
#include "gpu/count_misses_kernel.h"
#include "gpu/device_event.h"
#include "gpu/device_stream.h"
#include "gpu/fixed_device_table.h"
#include "gpu/pinned_block.h"

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
        in_(device),
        out_(device) {
    auto* misses = reinterpret_cast<uint64_t*>(misses_.data());
    for (uint32_t i = 0; i < lanes; ++i) {
      lanes_.emplace_back(device, memory_, part_rows, misses + i);
    }
  }
  AwaitedGets(const AwaitedGets&) = delete;
  AwaitedGets& operator=(const AwaitedGets&) = delete;

  // `requests` are gets; all pointers to pinned memory. Returns when the replies are there. Throws
  // DeviceError; nothing is under way then.
  void run(const DeviceRequests& requests) {
    try {
      work_off(requests);
      require_device(device_.synchronize(out_.get()), "wait for replies");
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
    Lane(Device& device, DeviceMemory<Device>& memory, uint64_t part_rows, uint64_t* its_misses)
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
    DeviceRequests rows;                  // of the caller
    bool over_values = false;             // the caller's came in
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
      require_device(device_.wait(in_.get(), lane.left.get()), "wait for an earlier part");
      copy_in(lane.values.data(), lane.rows.values_out, bytes);
    }
    require_device(device_.record(lane.came.get(), in_.get()) &&
                       device_.wait(lane.work.get(), lane.came.get()) &&
                       device_.wait(lane.work.get(), lane.left.get()),
                   "wait for a part's keys");
    DeviceRequests part;
    part.rows = lane.rows.rows;
    part.keys = lane.keys.data();
    part.values_out = lane.values.data();
    part.found = lane.found.data();
    table_.run(part, lane.work.get());
    const CountMissesKernel count{part.found, part.rows, lane.misses};
    require_device(device_.launch(lane.work.get(), 1, CountMissesKernel::threads, count) &&
                       device_.record(lane.looked_up.get(), lane.work.get()),
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
    require_device(device_.record(lane.left.get(), out_.get()), "record an event");
    if (!mixed) std::memset(lane.rows.found, misses == 0 ? 1 : 0, rows);
  }

  // Returns the misses of the part.
  uint64_t wait_for(const Lane& lane) {
    require_device(device_.synchronize(lane.looked_up.get()), "wait for a part");
    return *lane.misses;
  }
  void copy_in(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_device(in_.get(), to, from, bytes), "copy requests");
  }
  void copy_hits(const Lane& lane) {
    constexpr uint32_t threads = 256;
    const uint64_t rows = lane.rows.rows;
    const CopyHitsKernel kernel{lane.values.data(), lane.found.data(), rows, lane.rows.values_out};
    require_device(device_.launch(out_.get(), grid_for(device_, rows, threads), threads, kernel),
                   "copy values");
  }
  void copy_out(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_host(out_.get(), to, from, bytes), "copy replies");
  }

  void drain() {
    device_.synchronize(in_.get());
    for (const Lane& lane : lanes_) device_.synchronize(lane.work.get());
    device_.synchronize(out_.get());
  }

  Device& device_;
  Table& table_;
  const uint64_t most_part_rows_;
  DeviceMemory<Device> memory_;
  PinnedBlock<Device> misses_;  // of each lane's last part
  const DeviceStream<Device> in_;
  const DeviceStream<Device> out_;
  uint32_t dense_ahead_ = 0;  // parts that are expected to have many hits and many misses
  std::deque<Lane> lanes_;
};

}  // namespace isotherm
