// DeviceStock: the owner of a table's overflow lines; see gpu/kernel/line_stock.h.
//
// Lines come in slabs, cleared, and are put on the free lists by the ShelveKernel that runs next.
// The lists have room for a quarter more than all lines, so that they may fill unevenly.
//
// Threads. One at a time, in the order of the stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/kernel/line_stock.h"
#include "gpu/platform/device_memory.h"

namespace isotherm {

template <class Device>
class DeviceStock {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc without memory.
  DeviceStock(DeviceMemory<Device>& memory, Stream stream)
      : memory_(memory), device_(memory.device()), counters_(memory, 1) {
    if (counters_.empty() || !make_lists(least_lines, stream)) throw std::bad_alloc();
    require_device(
        device_.clear(stream, counters_.data(), counters_.bytes()) && device_.synchronize(stream),
        "clear the stock");
  }

  StockView view() const {
    return {counters_.data(), lists_.data(), shard_capacity_, lists_.data() + listed_};
  }
  uint64_t lines() const { return lines_; }

  struct Fresh {
    Bucket* lines = nullptr;
    uint64_t count = 0;
  };
  // `count` lines or more; none where memory ends, or for 0. They are the stock's once settled.
  Fresh add(uint64_t count, Stream stream) {
    if (count == 0) return {};
    count = std::max(count, least_lines);
    if (lines_ + count > capacity() && !make_lists((lines_ + count) * 5 / 4, stream)) return {};
    DeviceArray<Device, Bucket> slab(memory_, count);
    if (slab.empty()) return {};
    require_device(device_.clear(stream, slab.data(), slab.bytes()), "clear overflow lines");
    const Fresh fresh{slab.data(), count};
    lines_ += count;
    slabs_.push_back(std::move(slab));
    return fresh;
  }

 private:
  static constexpr uint64_t least_lines = 1024;

  uint64_t capacity() const { return lists_.size() - listed_; }

  // Lists for `lines` lines, with what the old ones hold.
  bool make_lists(uint64_t lines, Stream stream) {
    const uint64_t shard_capacity = lines * 5 / 4 / StockCounters::shards + 1;
    const uint64_t listed = shard_capacity * StockCounters::shards;
    DeviceArray<Device, Bucket*> lists(memory_, listed + lines);
    if (lists.empty()) return false;
    require_device(device_.clear(stream, lists.data(), lists.bytes()), "clear the lists of lines");
    for (uint64_t shard = 0; lines_ != 0 && shard < StockCounters::shards; ++shard) {
      require_device(
          device_.copy(stream, lists.data() + shard * shard_capacity,
                       lists_.data() + shard * shard_capacity_, shard_capacity_ * sizeof(Bucket*)),
          "copy the lists of lines");
    }
    const uint64_t returned = lists_.size() - listed_;
    require_device(device_.copy(stream, lists.data() + listed, lists_.data() + listed_,
                                returned * sizeof(Bucket*)) &&
                       device_.synchronize(stream),
                   "copy the lists of lines");
    lists_ = std::move(lists);
    shard_capacity_ = shard_capacity;
    listed_ = listed;
    return true;
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  DeviceArray<Device, StockCounters> counters_;
  DeviceArray<Device, Bucket*> lists_;  // the free lists, and behind them what was returned
  uint64_t shard_capacity_ = 0;
  uint64_t listed_ = 0;
  std::vector<DeviceArray<Device, Bucket>> slabs_;
  uint64_t lines_ = 0;
};

}  // namespace isotherm
