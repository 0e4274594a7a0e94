// StoredFindKernel: gets that compare no keys, of indexes of a fixed size: each row is answered
// with the first entry that has its signature, and that entry's key, which the caller compares.
//
// The key follows from the hash that lies in the entry. Where two keys of one place have one
// signature, the row may be answered with the wrong one; `get` tells them apart.
//
// Sources. Mega-KV, section 7.1 (get and getk).
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/request_op.h"
#include "gpu/kernel/warp_find.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"
#include "gpu/table/find_kernel.h"

namespace isotherm {

template <class Kind>
struct StoredFindKernel {
  static constexpr uint32_t blocks_per_multiprocessor = find_blocks_of<Kind>();
  static constexpr uint32_t threads = find_threads;

  typename Kind::View table;
  TableRequests requests;
  uint64_t* stored_keys = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const SteadyTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    for (uint64_t first = rounds.first; first < requests.rows; first += rounds.stride) {
      const uint64_t row = first + rounds.number;
      typename Kind::Home home;
      if (row < requests.rows) home = home_of_row(table, table.hash(requests.keys[row]), row);
      const auto place = Kind::template find_stored<tile_lanes>(tile, home);
      if (row >= requests.rows) continue;
      if (place.found) {
        requests.values_out[row] = place.word;
        stored_keys[row] = unmix(place.hash, table.seed);
      }
      requests.found[row] = static_cast<uint8_t>(place.found);
    }
  }
};

// Throws DeviceError.
template <class Kind, class Device>
void launch_stored_find(Device& device, typename Device::Stream stream,
                        const typename Kind::View& table, const TableRequests& requests,
                        uint64_t* stored_keys) {
  using Kernel = StoredFindKernel<Kind>;
  const Kernel kernel{table, requests, stored_keys};
  const uint32_t grid = grid_for(device, requests.rows, Kernel::threads);
  require_device(device.launch(stream, grid, Kernel::threads, kernel), "launch a lookup");
}

}  // namespace isotherm
