// FindKernel: gets only, which need no order among each other.
//
// In large batches each lane of a tile owns a row. In batches too small to fill the GPU each tile
// has only as many rows as it reads at once, so more tiles share the waiting. launch_find picks.
#pragma once

#include <cstdint>

#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/request_op.h"
#include "gpu/kernel/warp_find.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"

namespace isotherm {

// Blocks for which a multiprocessor has to have registers.
template <class Kind>
constexpr uint32_t find_blocks_of() {
  if constexpr (requires { Kind::find_blocks; }) {
    return Kind::find_blocks;
  } else {
    return 8;
  }
}

template <class Kind, uint32_t rows_per_tile>
struct FindKernel {
  static constexpr uint32_t blocks_per_multiprocessor = find_blocks_of<Kind>();
  static constexpr uint32_t threads = find_threads;
  using Shared = typename Kind::FindShared;

  typename Kind::View table;
  const uint64_t* keys = nullptr;
  uint64_t* values = nullptr;
  uint8_t* found = nullptr;
  uint64_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    constexpr uint32_t rows_per_warp = 32 / tile_lanes * rows_per_tile;
    auto* shared = lane.template shared<Shared>();
    const SteadyTile<Lane> tile(lane);
    const uint64_t warp = (uint64_t{lane.block()} * lane.threads() + lane.thread()) / 32;
    const uint64_t stride = uint64_t{lane.blocks()} * lane.threads() / 32 * rows_per_warp;
    const uint32_t in_warp = (lane.thread() & 31) / tile_lanes * rows_per_tile + tile.number();
    for (uint64_t first = warp * rows_per_warp; first < rows; first += stride) {
      const uint64_t row = first + in_warp;
      const bool mine = tile.number() < rows_per_tile && row < rows;
      typename Kind::Home home;
      if (mine) home = home_of_row(table, table.hash(keys[row]), row);
      const Found answer = Kind::template find<rows_per_tile>(tile, *shared, home);
      if (!mine) continue;
      if (answer.found) values[row] = answer.word;
      found[row] = static_cast<uint8_t>(answer.found);
    }
  }
};

template <class Kind, uint32_t rows_per_tile, class Device>
void launch_find_of(Device& device, typename Device::Stream stream,
                    const typename Kind::View& table, const TableRequests& requests) {
  using Kernel = FindKernel<Kind, rows_per_tile>;
  const Kernel kernel{table, requests.keys, requests.values_out, requests.found, requests.rows};
  const uint32_t grid =
      grid_for(device, requests.rows, Kernel::threads / tile_lanes * rows_per_tile);
  require_device(device.launch(stream, grid, Kernel::threads, kernel), "launch a lookup");
}

// Throws DeviceError.
template <class Kind, class Device>
void launch_find(Device& device, typename Device::Stream stream, const typename Kind::View& table,
                 const TableRequests& requests) {
  constexpr uint32_t few = 2;
  const uint64_t lanes = uint64_t{device.full_grid()} * find_threads;
  if (requests.rows * (tile_lanes / few) <= lanes / 2) {
    launch_find_of<Kind, few>(device, stream, table, requests);
  } else {
    launch_find_of<Kind, tile_lanes>(device, stream, table, requests);
  }
}

}  // namespace isotherm
