// DropKernel: segments of a table leave it, with all entries, between batches.
//
// A tile walks the chain of a line: it counts the entries, which leave the table's count, and
// returns the overflow lines to the stock. Home lines stay as they are; whoever takes the segment's
// memory next clears it. The entry of hash 0, which lies in the head, goes with the first segment
// of all.
#pragma once

#include <cstdint>

#include "gpu/kernel/bits.h"
#include "gpu/kernel/table_update.h"
#include "gpu/kernel/table_view.h"
#include "gpu/table/segment_job.h"

namespace isotherm {

struct DropKernel {
  TableView table;
  const SegmentJob* jobs = nullptr;
  uint32_t job_count = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const TileLanes<Lane> tile(lane);
    TileStock<Lane> stock(tile, table.stock);
    const int line_bits = table.index.line_bits;
    int32_t entries = 0;
    each_home_line(lane, jobs, job_count, line_bits, [&](const SegmentJob& job, uint64_t number) {
      const uint64_t any_hash = job.hash_of_line(number, line_bits);
      entries += drop_chain(tile, stock, job.lines + number, any_hash);
      if (any_hash == 0) entries += drop_head(tile);
    });
    add_entries(tile, table, -entries);
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE static int32_t drop_chain(const TileLanes<Lane>& tile,
                                                 TileStock<Lane>& stock, Bucket* home,
                                                 uint64_t any_hash) {
    int32_t entries = 0;
    for (Bucket* line = home; line != nullptr;) {
      const Pair view = tile.load(line);
      const Slot last = tile.slot(view, Bucket::last);
      const bool linked = mark::is_mark(last, any_hash);
      const bool entry = view.first != 0 && !(linked && tile.number() == uint32_t{Bucket::last});
      entries += static_cast<int32_t>(count_bits(tile.ballot(entry)));
      if (line != home) stock.retire(line);
      line = linked ? mark::link_target(last) : nullptr;
    }
    return entries;
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE int32_t drop_head(const TileLanes<Lane>& tile) const {
    const Pair view = tile.load(table.head);
    const uint32_t used = tile.ballot(view.first != 0);
    store_pair(&table.head->slot[tile.number()], {0, 0});
    return static_cast<int32_t>(count_bits(used));
  }
};

}  // namespace isotherm
