// ExtendKernel: writers that are alone with their key and found no free slot, or lost the one they
// wanted to another lane.
//
// A tile a row: few rows come here, and each waits for memory several times. Lanes that each hang
// lines on a chain of their own are faster where many rows come, and slower where few do.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

template <class Kind>
struct ExtendKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 4;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const SoleWriterTile<Lane> tile(lane);
    typename Kind::template Update<Lane> update(tile, table);
    const uint32_t size = batch.counters->failed_writes;
    const uint32_t stride = lane.blocks() * lane.threads() / tile_lanes;
    for (uint32_t i = (lane.block() * lane.threads() + lane.thread()) / tile_lanes; i < size;
         i += stride) {
      const uint32_t row = batch.failed_rows[i];
      const auto home = home_of_row(table, table.hash(batch.keys[row]), row);
      const KeyState before = update.run(home, Kind::load(tile, home), [&](KeyState state) {
        return batch.apply_row(row, state);
      });
      if (tile.leads()) batch.reply(row, before);
    }
    update.close();
  }
};

}  // namespace isotherm
