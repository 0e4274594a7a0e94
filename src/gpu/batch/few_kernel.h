// FewKernel: a part without a key twice whose rows are too few to fill the GPU.
//
// Such a part is bound by the trips to memory that follow each other, and by the launches of
// kernels. So each row has a warp, of which one tile answers it, as no tile then waits for another
// that has a longer way; and this is the only kernel: its last block sums up the table's totals.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/last_block.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

template <class Kind>
struct FewKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t rows_per_block = threads / 32;

  typename Kind::View table;
  BatchView batch;
  typename Kind::Totals totals;
  uint32_t* blocks_done = nullptr;  // device memory, 0 between launches

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.thread() % 32 < tile_lanes) answer(lane);
    lane.fence();
    lane.sync_block();
    if (lane.thread() >= 32) return;
    const bool last = lane.thread() == 0 && is_last_block(lane, blocks_done);
    if (lane.ballot(whole_warp, last) == 0) return;
    lane.fence();
    totals.sum_up(lane);
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer(const Lane& lane) const {
    const SoleWriterTile<Lane> tile(lane);
    typename Kind::template Update<Lane> update(tile, table);
    const uint32_t stride = lane.blocks() * rows_per_block;
    for (uint32_t row = lane.block() * rows_per_block + lane.thread() / 32; row < batch.rows;
         row += stride) {
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
