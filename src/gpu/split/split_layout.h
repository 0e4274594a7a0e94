// SplitLayout: how the parts of a table that is split over some devices and the host are cut, and
// what memory they take.
//
// A part has up to `rows` rows, which go to `devices` shards and `lists` of the host. Under a cap
// on device memory the buffers of all parts take an eighth at most: parts are made smaller until
// they do, then bins coarser.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "gpu/kernel/request_columns.h"
#include "gpu/split/bin_moves.h"
#include "gpu/split/shard_kernels.h"
#include "gpu/table/fixed_device_table.h"
#include "index/hash_bin.h"

namespace isotherm {

struct SplitOptions {
  FixedDeviceOptions table = {};  // of each device's; its gpu_memory caps all that is there
  uint32_t part_rows = 0;         // that are split at a time, of a slice; 0: the usual number
  bool express = true;            // few requests from the host
  uint64_t host_memory = 0;       // bytes of the host's index; 0: nothing lies on the host
  uint32_t host_threads = 1;
  uint32_t sampled = 64;   // of rows, one in so many is counted as a read of its bin
  int most_bin_bits = 14;  // of the number of bins of a device
  uint64_t entries_at_once = BinMoves::entries_at_once;  // that move where room is needed
};

struct SplitLayout {
  static constexpr uint32_t least_rows = 1 << 8;
  static constexpr uint64_t bin_bytes = sizeof(SharedBin) + sizeof(uint32_t);

  uint64_t seed = 0;
  uint32_t devices = 1;
  uint32_t lists = 0;  // of the host; 0: all keys lie on devices
  uint32_t rows = 0;
  int most_bits = 0;  // of the bins of a device

  // Throws std::invalid_argument for no devices or too many.
  template <class Device>
  static SplitLayout of(std::span<Device* const> devices, const SplitOptions& options) {
    const bool with_host = options.host_memory != 0;
    if (devices.empty() || devices.size() + (with_host ? 1 : 0) > ShardLayout::most_shards) {
      throw std::invalid_argument("a table lies on 1 to 32 devices, 31 with host memory");
    }
    SplitLayout layout;
    layout.seed = options.table.seed;
    layout.devices = static_cast<uint32_t>(devices.size());
    if (with_host) {
      constexpr uint32_t lists_a_thread = 4;  // so that threads end at the same time
      const uint64_t lists = uint64_t{options.host_threads} * lists_a_thread;
      const uint64_t most = ShardLayout::most_shards - layout.devices;
      layout.lists = options.host_threads > 1 ? static_cast<uint32_t>(std::min(lists, most)) : 1;
      layout.most_bits = options.most_bin_bits;
    }
    const uint32_t usual_rows = with_host ? 1 << 19 : 1 << 22;
    const uint32_t rows = options.part_rows != 0 ? options.part_rows : usual_rows;
    layout.rows = std::max(std::bit_floor(rows), least_rows);
    constexpr int least_bin_bits = 6;
    while (!layout.fits(*devices[0], options) && layout.rows > least_rows) layout.rows /= 2;
    while (!layout.fits(*devices[0], options) && layout.most_bits > least_bin_bits) {
      --layout.most_bits;
    }
    return layout;
  }
  template <class Device>
  bool fits(const Device& device, const SplitOptions& options) const {
    const uint64_t cap = options.table.gpu_memory / 8;
    return cap == 0 || sets() * bytes(device) <= cap;
  }

  // Of buffers, for parts that take turns.
  uint32_t sets() const { return devices > 1 ? 3 : 2; }
  uint32_t shards() const { return devices + lists; }
  uint64_t home_rows() const { return rows + uint64_t{shards()} * ShardLayout::alignment; }
  uint64_t away_rows() const {
    return (rows / devices * 5 / 4 + ShardLayout::alignment) &
           ~uint64_t{ShardLayout::alignment - 1};
  }
  uint64_t bins() const { return lists == 0 ? 0 : uint64_t{devices} << most_bits; }
  // Few with lists of the host: one block adds up what the warps count of each shard.
  template <class Device>
  uint32_t warps(const Device& device) const {
    uint32_t blocks = device.full_grid() / 4;
    if (lists != 0) blocks = std::min(device.full_grid() / 16, rows / ShardLayout::threads);
    return std::max(blocks, 1u) * (ShardLayout::threads / 32);
  }
  // Of a device's memory that a set of all homes' parts takes, each device being the home of one.
  template <class Device>
  uint64_t bytes(const Device& device) const {
    const uint64_t counters = uint64_t{shards()} * warps(device) + rows;
    const uint64_t columns = home_rows() + away_rows() * (devices - 1);
    return columns * RequestColumns::row_bytes + counters * sizeof(uint32_t) + bins() * bin_bytes;
  }

  // Rows of a call's parts, which are all of about the same size. Gets of several devices gain
  // nothing by long parts, and the last one's replies are there sooner. Writes: so many that each
  // device's table takes its share at once: shares differ a little, and of two parts there the
  // second would hold a few rows.
  uint64_t rows_of_parts(std::span<const TableRequests> slices, bool gets, uint64_t at_once) const {
    if (devices == 1) return rows;
    at_once *= devices;
    const uint64_t most = gets ? rows / 2 : std::min<uint64_t>(rows, at_once - at_once / 32);
    uint64_t longest = 1;
    for (const TableRequests& slice : slices) longest = std::max(longest, slice.rows);
    const uint64_t parts = (longest + most - 1) / most;
    return (longest + parts - 1) / parts;
  }
};

}  // namespace isotherm
