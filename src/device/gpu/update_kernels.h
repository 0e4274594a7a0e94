// UpdateKernel and ExtendKernel: writers that are alone with their key, and in a batch without a
// key twice all rows.
//
// UpdateKernel writes where device/gpu/write_place.h finds a place. What fails, because another
// lane was faster or the chain is full, is left to ExtendKernel, in which tiles do all that can
// happen.
#pragma once

#include <cstdint>

#include "device/gpu/batch_view.h"
#include "device/gpu/table_update.h"
#include "device/gpu/write_place.h"

namespace isotherm {

// Writes the rows of lanes whose writer is `alone`; true where a tile has to.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool try_alone(const SoleWriterTile<Lane>& tile,
                                                    FindShared<WritePlace>& shared,
                                                    const TableView& table, const BatchView& batch,
                                                    uint32_t row, bool alone, int32_t& entries) {
  if (tile.lane().ballot(whole_warp, alone) == 0) return false;
  Place place;
  if (alone) place = table.place(table.hash(batch.keys[row]));
  const WritePlace mine = find_write_place(tile, shared, place);
  if (!alone) return false;
  const KeyState before{mine.word, static_cast<uint8_t>(mine.found)};
  const KeyState to = batch.apply_row(row, before);
  if (!write_at<Lane>(mine, place.hash, to)) return true;
  entries += static_cast<int32_t>(to.found) - static_cast<int32_t>(before.found);
  batch.reply(row, before);
  return false;
}

// Writes the rows of lanes whose writer is `alone`, and leaves those that found no place to
// ExtendKernel; adds to `entries` what it inserted and erased. All lanes of a warp call.
template <class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void update_alone(const SoleWriterTile<Lane>& tile,
                                                       FindShared<WritePlace>& shared,
                                                       const TableView& table,
                                                       const BatchView& batch, uint32_t row,
                                                       bool alone, int32_t& entries) {
  const bool failed = try_alone(tile, shared, table, batch, row, alone, entries);
  const uint32_t at = append(tile.lane(), &batch.counters->failed_writes, failed);
  if (failed) batch.failed_rows[at] = row;
}

// Also notes which writers are not alone, a bit a row.
struct UpdateKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 6;

  static constexpr uint32_t threads = find_threads;
  using Shared = FindShared<WritePlace>;

  TableView table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SoleWriterTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    int32_t entries = 0;
    for (uint64_t first = rounds.first; first < batch.rows; first += rounds.stride) {
      const auto row = static_cast<uint32_t>(first) + rounds.number;
      const bool alone = batch.distinct_keys ? row < batch.rows : sort_out(lane, row);
      update_alone(tile, *shared, table, batch, row, alone, entries);
    }
    add_entries(tile, table, sum_in_tile(tile, entries));
  }

 private:
  // Whether the row is a writer that is alone.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool sort_out(const Lane& lane, uint32_t row) const {
    const bool write = row < batch.rows && is_write(batch.op_of(row));
    const bool grouped = write && batch.writers.many[batch.slot_of_row[row]] != 0;
    const uint32_t bits = lane.ballot(whole_warp, grouped);
    if (lane.thread() % 32 == 0) batch.grouped_bits[row / 32] = bits;
    return write && !grouped;
  }
};

// A tile a row: few rows come here, and each waits for memory several times.
struct ExtendKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 4;

  TableView table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const SoleWriterTile<Lane> tile(lane);
    TableUpdate<Lane> update(tile, table);
    const uint32_t size = batch.counters->failed_writes;
    const uint32_t stride = lane.blocks() * lane.threads() / tile_lanes;
    for (uint32_t i = (lane.block() * lane.threads() + lane.thread()) / tile_lanes; i < size;
         i += stride) {
      const uint32_t row = batch.failed_rows[i];
      const Place place = table.place(table.hash(batch.keys[row]));
      const KeyState before = update.run(place, tile.load(place.line), [&](KeyState state) {
        return batch.apply_row(row, state);
      });
      if (tile.leads()) batch.reply(row, before);
    }
    update.close();
  }
};

}  // namespace isotherm
