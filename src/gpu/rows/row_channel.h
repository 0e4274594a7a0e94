// RowChannel: what a part of a call on rows of several devices has on one of them, as its home and
// as another's; see gpu/rows/split_row_store.h.
//
// At home the part is brought into the order of its shards, each of which begins at a multiple of
// 32 rows (gpu/split/shard_kernels.h); what other devices answer comes back to the same places. An
// export needs 64 rows at least.
//
// Threads. One at a time, which has entered the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <type_traits>

#include "gpu/platform/device_event.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/row_call.h"
#include "gpu/rows/spread_kernels.h"
#include "gpu/split/shard_kernels.h"

namespace isotherm {

// Of a table of rows on several devices.
struct RowSplitShape {
  static constexpr uint64_t channels = 3;

  uint64_t seed = 0;
  uint64_t units = 0;  // pairs of a row
  uint64_t devices = 0;
  bool scored = false;
  uint64_t part_rows = 0;

  uint64_t row_bytes() const { return units * sizeof(Pair); }
  uint64_t home_rows() const { return part_rows + devices * ShardLayout::alignment; }
};

// Of the rows of a part, in order of shard at home, or of one shard elsewhere.
template <class Device>
struct RowColumns {
  RowColumns(DeviceMemory<Device>& memory, uint64_t count, const RowSplitShape& shape)
      : keys(memory, count), found(memory, count), rows(memory, count * shape.units) {
    if (shape.scored) scores = DeviceArray<Device, uint64_t>(memory, count);
    if (keys.empty() || found.empty() || rows.empty() || (shape.scored && scores.empty())) {
      throw std::bad_alloc();
    }
  }
  // A shard's part of a call, in these columns.
  gpu::RowRequests shard(const gpu::RowRequests& part, const ShardStretch& its,
                         const RowSplitShape& shape) const {
    gpu::RowRequests call = part;
    call.keys = keys.data();
    if (part.rows != nullptr) call.rows = rows.data();
    if (part.scores != nullptr) call.scores = scores.data();
    call.found = found.data();
    return part_of(call, its.begin, its.rows, shape.row_bytes());
  }

  DeviceArray<Device, uint64_t> keys;
  DeviceArray<Device, uint8_t> found;
  DeviceArray<Device, Pair> rows;
  DeviceArray<Device, uint64_t> scores;
};

template <class Device>
struct RowChannel {
  using Stream = typename Device::Stream;

  RowChannel(DeviceMemory<Device>& memory, const RowSplitShape& shape)
      : device(memory.device()),
        warps(warps_of(device)),
        home(memory, shape.home_rows(), shape),
        away(memory, shape.part_rows, shape),
        places(memory, shape.part_rows),
        counts(memory, shape.devices * warps),
        stretches(device, ShardLayout::most_shards * sizeof(ShardStretch)),
        at_home(device),
        elsewhere(device),
        counted(device),
        sent(device),
        answered(device) {
    if (places.empty() || counts.empty()) throw std::bad_alloc();
    // Columns are copied whole, with what nobody writes.
    const auto clear = [&](const auto& array) {
      return array.empty() || device.clear(at_home.get(), array.data(), array.bytes());
    };
    require_device(clear(home.rows) && clear(away.rows) && clear(home.found) && clear(away.found) &&
                       clear(home.scores) && clear(away.scores) &&
                       device.record(answered.get(), elsewhere.get()) &&
                       device.synchronize(at_home.get()),
                   "clear rows");
  }
  // Of the arrays.
  static uint64_t bytes(const RowSplitShape& shape, const Device& device) {
    const uint64_t a_row = shape.row_bytes() + (shape.scored ? 2 : 1) * sizeof(uint64_t) + 1;
    return (shape.home_rows() + shape.part_rows) * a_row +
           (shape.part_rows + shape.devices * warps_of(device)) * sizeof(uint32_t);
  }

  ShardStretch stretch(uint32_t i) const {
    return reinterpret_cast<const ShardStretch*>(stretches.data())[i];
  }
  void settle() {
    device.synchronize(at_home.get());
    device.synchronize(elsewhere.get());
  }

  // Brings a part into the order of its shards; waits until the host knows their sizes.
  void split(const gpu::RowRequests& part, const RowSplitShape& shape) {
    const Stream stream = at_home.get();
    ShardSplit<HashRoute> split;
    split.route = {shape.seed, static_cast<uint32_t>(shape.devices)};
    split.rows = static_cast<uint32_t>(part.n);
    split.warps = warps;
    split.keys = part.keys;
    split.counts = counts.data();
    const uint32_t blocks = warps / (ShardLayout::threads / 32);
    TableRequests from;
    from.rows = part.n;
    from.keys = part.keys;
    from.found = home.found.data();  // so that places are noted
    const RequestColumns to{reinterpret_cast<char*>(home.keys.data()), home.keys.size()};
    launch(blocks, CountShardsKernel<HashRoute>{split});
    require_device(device.launch(stream, 1, BeginShardsKernel<HashRoute>::threads,
                                 BeginShardsKernel<HashRoute>{
                                     split, reinterpret_cast<ShardStretch*>(stretches.data())}) &&
                       device.record(counted.get(), stream),
                   "count the rows of shards");
    launch(blocks, SplitRowsKernel<HashRoute>{split, from, to, places.data()});
    if (sends_rows(part)) {
      spread(part.n, static_cast<const Pair*>(part.rows), home.rows.data(), shape.units);
    }
    if (sends_scores(part)) spread<uint64_t>(part.n, part.scores, home.scores.data(), 1);
    require_device(device.synchronize(counted.get()), "wait for the counts of a part");
  }

  // The answers of all shards, to the requests.
  void return_replies(const gpu::RowRequests& part, const RowSplitShape& shape) {
    if (brings_scores(part)) {
      bring<uint64_t>(part.n, home.scores.data(), nullptr, part.scores, 1);
    }
    const Pair* const rows = brings_rows(part) ? home.rows.data() : nullptr;
    if (part.found == nullptr && rows == nullptr) return;
    bring(part.n, rows, part.found, static_cast<Pair*>(part.rows), shape.units);
  }

  // Which columns go along.
  struct Columns {
    bool rows;
    bool scores;
  };
  void copy_to(RowChannel& other, const gpu::RowRequests& from, const gpu::RowRequests& to,
               Columns columns, Stream stream, const RowSplitShape& shape) {
    const auto copy = [&](bool wanted, void* there, const void* here, uint64_t bytes) {
      return !wanted || device.copy_to(other.device, stream, there, here, bytes);
    };
    require_device(copy(columns.rows, to.rows, from.rows, from.n * shape.row_bytes()) &&
                       copy(columns.scores, to.scores, from.scores, from.n * sizeof(uint64_t)),
                   "copy rows to another GPU");
  }

  Device& device;
  const uint32_t warps;
  RowColumns<Device> home;
  RowColumns<Device> away;
  DeviceArray<Device, uint32_t> places;  // of a part's requests, in `home`
  DeviceArray<Device, uint32_t> counts;
  PinnedBlock<Device> stretches;
  DeviceStream<Device> at_home;    // of the parts whose home it is
  DeviceStream<Device> elsewhere;  // of those of other devices
  DeviceEvent<Device> counted, sent, answered;

 private:
  static uint32_t warps_of(const Device& device) {
    return std::max(device.full_grid() / 4, 1u) * (ShardLayout::threads / 32);
  }
  template <class Unit>
  void spread(uint64_t rows, const Unit* from, Unit* to, uint64_t units) {
    launch(grid_for(device, rows * units, ShardLayout::threads),
           SpreadRowsKernel<Unit>{places.data(), from, to, static_cast<uint32_t>(rows),
                                  static_cast<uint32_t>(units)});
  }
  template <class Unit>
  void bring(uint64_t rows, const Unit* from, uint8_t* replies, Unit* to, uint64_t units) {
    launch(grid_for(device, rows * (from != nullptr ? units : 1), ShardLayout::threads),
           ReturnRowsKernel<Unit>{places.data(), home.found.data(), from, replies, to,
                                  static_cast<uint32_t>(rows), static_cast<uint32_t>(units)});
  }
  template <class Kernel>
  void launch(uint32_t blocks, const Kernel& kernel) {
    require_device(device.launch(at_home.get(), blocks, ShardLayout::threads, kernel),
                   "launch a kernel of rows");
  }
};

}  // namespace isotherm
