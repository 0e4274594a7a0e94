// Group kernels: writers of one key, sorted, applied in their order. See gpu/batch/batch_view.h.
#pragma once

#include <cstdint>

#include "gpu/batch/batch_view.h"
#include "gpu/kernel/index_kind.h"
#include "gpu/kernel/line_kind.h"

namespace isotherm {

// One position among the sorted writers.
struct GroupPosition {
  uint32_t slot = 0;
  uint32_t row = 0;
  bool head = false;
  bool tail = false;

  ISOTHERM_HOST_DEVICE static GroupPosition at(const BatchView& batch, uint32_t i, uint32_t size) {
    const uint32_t slot = batch.sorted_slots[i];
    return {slot, batch.sorted_rows[i], i == 0 || batch.sorted_slots[i - 1] != slot,
            i + 1 == size || batch.sorted_slots[i + 1] != slot};
  }
};

// Notes where the group lies, and replies where the writer before says it. True where operations
// that depend on their state begin.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool begin_group(const BatchView& batch, uint32_t i,
                                                      const GroupPosition& position) {
  if (position.head) batch.writers.start[position.slot] = i;
  if (position.tail) batch.writers.end[position.slot] = i + 1;
  bool known = position.head;
  if (!position.head) {
    const uint32_t before = batch.sorted_rows[i - 1];
    known = is_constant(batch.op_of(before));
    if (known) batch.reply(position.row, batch.apply_row(before, {}));
  }
  return known && !position.tail && !is_constant(batch.op_of(position.row));
}

// Whether the group's key was absent, whatever the index shows of it by now.
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool was_absent(const BatchView& batch,
                                                     const GroupPosition& position) {
  return batch.tried && batch.writers.many[position.slot] == WriterTable::was_absent;
}

template <class Kind>
struct GroupBeginKernel {
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
    const uint32_t size = batch.counters->grouped;
    for (uint64_t first = rounds.first; first < size; first += rounds.stride) {
      const auto i = static_cast<uint32_t>(first) + rounds.number;
      GroupPosition position;
      typename Kind::Home home;
      bool is_streak = false;
      if (i < size) {
        position = GroupPosition::at(batch, i, size);
        is_streak = begin_group(batch, i, position);
        if (position.head && !was_absent(batch, position)) {
          home = home_of_row(table, table.hash(batch.keys[position.row]), position.row);
        }
      }
      const uint32_t at = append(lane, &batch.counters->streaks, is_streak);
      if (is_streak) batch.streak_starts[at] = i;
      const Found found = Kind::template find<tile_lanes>(tile, *shared, home);
      if (position.head) {
        batch.reply(position.row, {found.word, static_cast<uint8_t>(found.found)});
      }
    }
  }
};

// `begins`: of a part in which nothing depends on the state before, so that what GroupBeginKernel
// does is done, too: the index is read where it is written.
template <class Kind, bool begins = false>
struct GroupEndKernel {
  static constexpr uint32_t blocks_per_multiprocessor = 4;
  static constexpr uint32_t threads = find_threads;
  using Shared = typename Kind::PlaceShared;

  typename Kind::View table;
  BatchView batch;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const SoleWriterTile<Lane> tile(lane);
    typename Kind::template Update<Lane> update(tile, table);
    const WarpRounds<Lane> rounds(lane);
    const uint32_t size = batch.counters->grouped;
    int32_t entries = 0;
    for (uint64_t first = rounds.first; first < size; first += rounds.stride) {
      const auto i = static_cast<uint32_t>(first) + rounds.number;
      GroupPosition position;
      typename Kind::Home home;
      KeyState last;
      if (i < size) position = GroupPosition::at(batch, i, size);
      if (begins && i < size) begin_group(batch, i, position);
      if (position.tail) {
        home = home_of_row(table, table.hash(batch.keys[position.row]), position.row);
        last = batch.after(position.row);
      }
      const auto at = Kind::template find_place<tile_lanes, 2>(tile, *shared, home);
      if (begins && position.tail) reply_to_head(i, position, at.word, at.found);
      if (position.tail && Kind::template write<Lane>(at, home, last)) {
        entries += static_cast<int32_t>(last.found) - static_cast<int32_t>(at.found);
        home.clear();
      }
      leave(tile, update, position, home, last);
    }
    update.count(entries);
    update.close();
  }

 private:
  // What the index showed before the group. Others of the group have asked the writer before.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void reply_to_head(uint32_t i, const GroupPosition& position,
                                                          uint64_t word, uint32_t found) const {
    const uint32_t row = batch.sorted_rows[head_of(i, position.slot)];
    if (was_absent(batch, position)) found = 0;
    batch.reply(row, {word, static_cast<uint8_t>(found)});
  }
  // Where the group of the row at `i` begins: most that are not ranked are short.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t head_of(uint32_t i, uint32_t slot) const {
    if (batch.takes_listed()) return batch.writers.start[slot];
    uint32_t head = i;
    uint32_t step = 1;
    for (; step <= head && batch.sorted_slots[head - step] == slot; step *= 2) head -= step;
    for (; step != 0; step /= 2) {
      if (step <= head && batch.sorted_slots[head - step] == slot) head -= step;
    }
    return head;
  }
  // What no lane could write by itself.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void leave(const SoleWriterTile<Lane>& tile,
                                                  typename Kind::template Update<Lane>& update,
                                                  const GroupPosition& position,
                                                  const typename Kind::Home& home,
                                                  KeyState last) const {
    bool failed = false;
    Kind::tile_rows(tile, home, [&](uint32_t owner, const auto& at, const auto& view) {
      const KeyState to{tile.from(last.value, owner),
                        static_cast<uint8_t>(tile.from(uint32_t{last.found}, owner))};
      const KeyState before = update.run(at, view, [&](KeyState) { return to; });
      if (tile.number() == owner) failed = before.found == reply_retry;
    });
    if (!failed) return;
    batch.writers.many[position.slot] = WriterTable::no_memory;
    batch.counters->failed = 1;
  }
};

// The last of a part: gets of keys that it writes, the replies of groups that found no memory, and
// the table's totals.
template <class Totals>
struct LateKernel {
  BatchView batch;
  Totals totals;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.block() == 0 && lane.thread() < 32) totals.sum_up(lane);
    const uint32_t size = batch.counters->late;
    const uint32_t begin = lane.block() * lane.threads() + lane.thread();
    const uint32_t stride = lane.blocks() * lane.threads();
    for (uint32_t i = begin; i < size; i += stride) {
      const uint32_t row = batch.late_rows[i];
      batch.reply(row, state_at(row, batch.late_slots[i]));
    }
    if (batch.counters->failed == 0) return;
    const uint32_t grouped = batch.counters->grouped;
    for (uint32_t i = begin; i < grouped; i += stride) {
      if (batch.writers.many[batch.sorted_slots[i]] != WriterTable::no_memory) continue;
      batch.found[batch.sorted_rows[i]] = reply_retry;
    }
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE KeyState state_at(uint32_t row, uint32_t slot) const {
    const WriterTable& writers = batch.writers;
    // Only an absent key needs memory.
    if (writers.many[slot] == WriterTable::no_memory) return {};
    if (writers.many[slot] == 0) {
      const uint32_t writer = writers.row(slot);
      const KeyState before = batch.before(writer);
      if (before.found == reply_retry) return {};  // the key was absent, and stayed so
      return row < writer ? before : batch.apply_row(writer, before);
    }
    const uint32_t start = writers.start[slot];
    uint32_t below = start;  // writers before `row`
    for (uint32_t end = writers.end[slot]; below < end;) {
      const uint32_t middle = below + (end - below) / 2;
      if (batch.sorted_rows[middle] < row) {
        below = middle + 1;
      } else {
        end = middle;
      }
    }
    if (below == start) return batch.before(batch.sorted_rows[start]);
    return batch.after(batch.sorted_rows[below - 1]);
  }
};

}  // namespace isotherm
