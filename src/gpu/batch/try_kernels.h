// Try kernels: puts of keys that are expected to be new, without entering every writer. See
// gpu/batch/batch_view.h.
//
//   try      every row looks for its key. Where its chain has it not, but a free slot, the row
//            claims the first free slot of the chain and is done: answered "absent". The others are
//            left over.
//   mark     rows left over enter the writer table
//   join     a done row whose key is in the writer table becomes one of the key's writers after
//            all, and the key is noted as absent when the part began (WriterTable::was_absent)
//   update   rows left over that are alone with their key
// From there on the part goes on as any other: groups give the replies in the order of rows, and
// the last writer's value takes the place of the one that was claimed with.
//
// At most one row of a key is done, though none of them waits for another. While `try` runs the
// hash of a slot changes once at most, from 0 to that of its claimer: nobody frees slots, and
// nobody hangs on lines, so chains and their LINKs stay as they are (lines that are MOVED are in no
// table that a batch runs on). Before a row claims a slot it has read every slot before it in the
// chain, and found there neither 0 nor its own hash. Say two rows of a key claimed slots i < j. The
// second has read slot i, and found neither 0 nor the key's hash; but slot i held nothing else,
// ever. One slot has one winner, so i = j is out, too. It takes no order between accesses to
// different words: each step is about what one word may show. Which row of the key wins does not
// matter.
//   - A row that loses its slot goes on to the next of the line by itself: each swap either claims,
//     or returns what is there for good, so what it read so far stays true. At the line's end it
//     gives up.
//   - The last slot is as any other: an entry there or a LINK is not 0. No tile copies it while
//     `try` runs, so here its hash may be claimed before its word is written.
//   - The key whose hash is 0 lies in the head by hash 1, in a chain where no other key is.
//   - Equal hashes are equal keys, since the hash is a bijection.
// A key that was there when the part began is found by all its rows, as entries stay where they
// are; so the key of a row that is done was absent. The word is written after the hash; only later
// kernels read it.
//
// Memory. Rows of a key of which one is done need none; of any other key all rows are left over, so
// a key without memory is refused whole.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/batch/direct_kernels.h"
#include "gpu/batch/update_kernels.h"

namespace isotherm {

template <class Kind>
struct TryKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 4;
  static constexpr uint32_t threads = find_threads;
  using Shared = WriteShared<Kind>;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SoleWriterTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    WarpList left(lane, shared->left, &batch.counters->left, batch.left_rows);
    int32_t entries = 0;
    for (uint64_t first = rounds.first; first < batch.rows; first += rounds.stride) {
      const auto row = static_cast<uint32_t>(first) + rounds.number;
      const bool mine = row < batch.rows;
      typename Kind::Home home;
      if (mine) home = home_of_row(table, table.hash(batch.keys[row]), row);
      const auto at = Kind::template find_first_place<tile_lanes, write_lines_at_a_time>(
          tile, shared->find, home);
      bool done = mine && !at.found && at.slot != nullptr;
      if (done) done = Kind::template claim<Lane>(at, home, batch.value_of(row, TableOp::put));
      if (done) {
        batch.reply(row, {});
        ++entries;
      }
      const uint32_t bits = lane.ballot(whole_warp, done);
      if (rounds.number == 0) batch.done_bits[first / 32] = bits;
      left.add(mine && !done, row);
    }
    left.flush();
    Kind::count(tile, table, entries);
  }
};

template <class Kind>
struct MarkLeftKernel {
  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t size = batch.counters->left;
    const uint32_t stride = lane.blocks() * lane.threads();
    for (uint32_t i = lane.block() * lane.threads() + lane.thread(); i < size; i += stride) {
      const uint64_t hash = mark_writer<Lane>(table, batch, batch.left_rows[i]);
      batch.writers.note_home<Lane>(hash);
    }
  }
};

// Also begins the bits of rows that are not alone with their key.
template <class Kind>
struct JoinKernel {
  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const WarpRounds<Lane> rounds(lane);
    const bool any = batch.counters->left != 0;
    for (uint64_t first = rounds.first; first < batch.rows; first += rounds.stride) {
      const auto row = static_cast<uint32_t>(first) + rounds.number;
      const bool done = any && (batch.done_bits[first / 32] >> rounds.number & 1) != 0;
      const uint32_t bits = lane.ballot(whole_warp, done && joins(row));
      if (rounds.number == 0) {
        batch.grouped_bits[row / 32] = bits;
        if (bits != 0) batch.note_grouped();
      }
    }
  }

 private:
  // Whether another row writes the key.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool joins(uint32_t row) const {
    const uint64_t key = batch.keys[row];
    const uint64_t hash = table.hash(key);
    if (!batch.writers.may_find(hash)) return false;
    const uint32_t slot = batch.writers.find(hash, key);
    if (slot == WriterTable::none) return false;
    batch.slot_of_row[row] = slot;
    batch.writers.many[slot] = WriterTable::was_absent;  // no other done row has this key
    return true;
  }
};

// Also notes which rows left over are not alone with their key.
template <class Kind>
struct UpdateLeftKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 4;
  static constexpr uint32_t threads = find_threads;
  using Shared = WriteShared<Kind>;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SoleWriterTile<Lane> tile(lane);
    const WarpRounds<Lane> rounds(lane);
    const uint32_t size = batch.counters->left;
    WarpList failed(lane, shared->left, &batch.counters->failed_writes, batch.failed_rows);
    int32_t entries = 0;
    for (uint64_t first = rounds.first; first < size; first += rounds.stride) {
      const auto i = static_cast<uint32_t>(first) + rounds.number;
      const uint32_t row = i < size ? batch.left_rows[i] : 0;
      const bool alone = i < size && is_alone<Lane>(row);
      failed.add(fails_alone<Kind, write_lines_at_a_time>(tile, shared->find, table, batch, row,
                                                          alone, entries),
                 row);
    }
    failed.flush();
    Kind::count(tile, table, entries);
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_alone(uint32_t row) const {
    if (batch.writers.many[batch.slot_of_row[row]] == 0) return true;
    Lane::atomic_or(&batch.grouped_bits[row / 32], 1u << row % 32);
    batch.note_grouped();
    return false;
  }
};

}  // namespace isotherm
