// UpdateKernel: writers that are alone with their key, and in a batch without a key twice all rows.
//
// It writes where the index finds a place (gpu/kernel/index_kind.h). What fails, because another
// lane was faster, or the chain or the part is full, is left to gpu/batch/extend_kernel.h.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/line_kind.h"
#include "gpu/kernel/warp_list.h"

namespace isotherm {

// Puts a key that is absent, where the kind has lanes do that in kernels without tiles that write.
template <class Kind, class Lane, class Place>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool inserts(const Place& place,
                                                  const typename Kind::Home& home, KeyState before,
                                                  KeyState to) {
  if constexpr (requires { Kind::template insert_alone<Lane>(place, home, to.value); }) {
    return before.found == 0 && to.found != 0 &&
           Kind::template insert_alone<Lane>(place, home, to.value);
  } else {
    return false;
  }
}

// Writes the rows of lanes whose writer is `alone`, and adds to `entries` what it inserted and
// erased; true where that failed. All lanes of a warp call.
template <class Kind, uint32_t at_a_time, class Lane>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool fails_alone(const SoleWriterTile<Lane>& tile,
                                                      typename Kind::PlaceShared& shared,
                                                      const typename Kind::View& table,
                                                      const BatchView& batch, uint32_t row,
                                                      bool alone, int32_t& entries) {
  if (tile.lane().ballot(whole_warp, alone) == 0) return false;
  typename Kind::Home home;
  if (alone) home = home_of_row(table, table.hash(batch.keys[row]), row);
  const auto mine = Kind::template find_place<tile_lanes, at_a_time>(tile, shared, home);
  if (!alone) return false;
  const KeyState before{mine.word, static_cast<uint8_t>(mine.found)};
  const KeyState to = batch.apply_row(row, before);
  if (!Kind::template write<Lane>(mine, home, to) && !inserts<Kind, Lane>(mine, home, before, to)) {
    return true;
  }
  entries += static_cast<int32_t>(to.found) - static_cast<int32_t>(before.found);
  batch.reply(row, before);
  return false;
}

// What a block of a kernel keeps that writes rows and leaves some to a later one.
template <class Kind>
struct WriteShared {
  typename Kind::PlaceShared find;
  WarpListShared<find_threads> left;
};

// Also notes which writers are not alone, a bit a row. `dense`: all rows are writers.
template <class Kind, bool dense>
struct UpdateKernel {
  static constexpr uint32_t blocks_per_multiprocessor = dense ? 4 : 6;
  static constexpr uint32_t at_a_time = dense ? write_lines_at_a_time : 2;
  static constexpr uint32_t threads = find_threads;
  using Shared = WriteShared<Kind>;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SoleWriterTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    WarpList failed(lane, shared->left, &batch.counters->failed_writes, batch.failed_rows);
    int32_t entries = 0;
    for (uint64_t first = rounds.first; first < batch.rows; first += rounds.stride) {
      const auto row = static_cast<uint32_t>(first) + rounds.number;
      const bool alone = batch.distinct_keys ? row < batch.rows : sort_out(lane, row);
      failed.add(
          fails_alone<Kind, at_a_time>(tile, shared->find, table, batch, row, alone, entries), row);
    }
    failed.flush();
    Kind::count(tile, table, entries);
  }

 private:
  // Whether the row is a writer that is alone.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool sort_out(const Lane& lane, uint32_t row) const {
    const bool write = row < batch.rows && is_write(batch.op_of(row));
    const bool grouped = write && batch.writers.many[batch.slot_of_row[row]] != 0;
    const uint32_t bits = lane.ballot(whole_warp, grouped);
    if (lane.thread() % 32 == 0) {
      batch.grouped_bits[row / 32] = bits;
      if (bits != 0) batch.note_grouped();
    }
    if (bits != 0) batch.list_grouped(lane, row, grouped, bits);
    return write && !grouped;
  }
};

}  // namespace isotherm
