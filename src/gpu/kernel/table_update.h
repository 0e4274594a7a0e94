// TableUpdate: changes of the index by one tile, with the counts of what it inserted and erased.
//
// The tile is the only writer of its keys in this batch. All lanes of the tile call together.
// close() hands over the counts and the spare line.
#pragma once

#include <cstdint>

#include "gpu/kernel/request_op.h"
#include "gpu/kernel/table_view.h"

namespace isotherm {

template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE int32_t sum_in_tile(const TileLanes<Lane>& tile,
                                                         int32_t value) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < tile_lanes; ++i) sum += tile.from(value, i);
  return sum;
}

// To the table's count, once per tile.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void add_entries(const TileLanes<Lane>& tile,
                                                      const TableView& table, int32_t entries) {
  if (entries == 0 || !tile.leads()) return;
  const uint32_t shard = tile.lane().block() % CountShard::shards;
  Lane::atomic_add(&table.counts[shard].entries, int64_t{entries});
}

template <class Lane>
class TableUpdate {
 public:
  ISOTHERM_HOST_DEVICE TableUpdate(const SoleWriterTile<Lane>& tile, const TableView& table)
      : tile_(tile), table_(table), stock_(tile, table.stock) {}

  // Puts the key into the state after(state); returns the state before, or with `found` reply_retry
  // where there was no memory, and then nothing changed. `view`: the home line, loaded.
  template <class After>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState run(const Home& home, Pair view, After&& after) {
    const Updated updated = update_loaded(
        tile_, home.line, view, home.hash, stock_, [&](bool found, uint64_t word) -> Decision {
          const KeyState to = after(KeyState{word, static_cast<uint8_t>(found)});
          if (to.found == 0) return {found ? Action::erase : Action::keep, 0};
          return {found && to.value == word ? Action::keep : Action::store, to.value};
        });
    if (updated.change == Change::no_line) return {0, reply_retry};
    if (updated.change == Change::inserted) ++entries_;
    if (updated.change == Change::erased) --entries_;
    return {updated.previous.word, static_cast<uint8_t>(updated.previous.found)};
  }

  // Adds what each lane inserted and erased by itself.
  ISOTHERM_HOST_DEVICE void count(int32_t entries) { entries_ += sum_in_tile(tile_, entries); }

  ISOTHERM_HOST_DEVICE void close() {
    stock_.close();
    add_entries(tile_, table_, entries_);
  }

 private:
  const SoleWriterTile<Lane>& tile_;
  const TableView& table_;
  TileStock<Lane> stock_;
  int32_t entries_ = 0;
};

}  // namespace isotherm
