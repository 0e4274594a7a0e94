// MarkKernel and GetKernel: find out which keys a part writes, and answer gets of the others. See
// gpu/batch/batch_view.h.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

// Enters a writer; returns its key's hash.
template <class Lane, class View>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t mark_writer(const View& table, const BatchView& batch,
                                                          uint32_t row) {
  const uint64_t key = batch.keys[row];
  const uint64_t hash = table.hash(key);
  bool first = false;
  const uint32_t slot = batch.writers.insert<Lane>(hash, key, row, first);
  batch.slot_of_row[row] = slot;
  if (!first && batch.writers.many[slot] == 0) batch.writers.many[slot] = 1;
  return hash;
}

template <class Kind>
struct MarkKernel {
  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t stride = lane.blocks() * lane.threads();
    for (uint32_t row = lane.block() * lane.threads() + lane.thread(); row < batch.rows;
         row += stride) {
      const TableOp op = batch.op_of(row);
      if (!is_write(op)) continue;
      mark_writer<Lane>(table, batch, row);
      if (!is_constant(op)) batch.note_dependent();
    }
  }
};

// Gets of keys that nobody writes; the others are put off.
template <class Kind>
struct GetKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 6;
  static constexpr uint32_t threads = find_threads;
  using Shared = typename Kind::FindShared;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SteadyTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    for (uint64_t first = rounds.first; first < batch.rows; first += rounds.stride) {
      const auto row = static_cast<uint32_t>(first) + rounds.number;
      typename Kind::Home home;
      uint32_t late = WriterTable::none;
      if (row < batch.rows && !is_write(batch.op_of(row))) {
        const uint64_t key = batch.keys[row];
        const uint64_t hash = table.hash(key);
        late = batch.writers.find(hash, key);
        if (late == WriterTable::none) home = home_of_row(table, hash, row);
      }
      put_off(lane, row, late);
      const Found found = Kind::template find<tile_lanes>(tile, *shared, home);
      if (home.is_given()) {
        batch.reply(row, {found.word, static_cast<uint8_t>(found.found)});
      }
    }
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void put_off(const Lane& lane, uint32_t row,
                                                    uint32_t slot) const {
    const bool late = slot != WriterTable::none;
    const uint32_t at = append(lane, &batch.counters->late, late);
    if (!late) return;
    batch.late_rows[at] = row;
    batch.late_slots[at] = slot;
  }
};

}  // namespace isotherm
