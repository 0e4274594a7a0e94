// MarkedFindKernel: few gets, whose keys and replies may lie in pinned memory, and a mark for the
// host behind them, in one launch.
//
// Every block makes its replies visible to the host; the last one sets the mark. A launch of its
// own for the mark would cost the host more time than a small batch costs the device.
#pragma once

#include <cstdint>

#include "gpu/kernel/end_mark.h"
#include "gpu/kernel/last_block.h"
#include "gpu/table/find_kernel.h"

namespace isotherm {

template <class Kind>
struct MarkedFindKernel {
  // So few rows a tile that a small batch is spread over many.
  static constexpr uint32_t rows_per_tile = 2;
  using Find = FindKernel<Kind, rows_per_tile>;
  // Fewer than of a large lookup, whose lanes have fewer registers for it.
  static constexpr uint32_t blocks_per_multiprocessor = 4;
  static constexpr uint32_t threads = Find::threads;
  using Shared = typename Find::Shared;

  Find find;
  EndMark mark;
  uint32_t* blocks_done = nullptr;  // device memory, 0 between launches

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    find(lane);
    lane.sync_block();
    if (lane.thread() != 0) return;
    EndMark::fence_host();
    if (is_last_block(lane, blocks_done)) mark.set();
  }
};

// Throws DeviceError.
template <class Kind, class Device>
void launch_marked_find(Device& device, typename Device::Stream stream,
                        const typename Kind::View& table, const TableRequests& requests,
                        const EndMark& mark, uint32_t* blocks_done) {
  using Kernel = MarkedFindKernel<Kind>;
  const Kernel kernel{{table, requests.keys, requests.values_out, requests.found, requests.rows},
                      mark,
                      blocks_done};
  constexpr uint32_t rows_per_block = find_threads / tile_lanes * Kernel::rows_per_tile;
  const uint32_t grid = grid_for(device, requests.rows, rows_per_block);
  require_device(device.launch(stream, grid, find_threads, kernel), "launch a lookup");
}

}  // namespace isotherm
