// The loops of a FixedTable over arrays, and over requests of any operations, as templates over the
// tile.
//
// A rolling prefetch runs some rows ahead of the row that is probed; nothing else hangs behind a
// line, so one pass is enough. As with host_stages.h only the files of one instruction set include
// this, and everything is a template over Tile or always inlined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "gpu/kernel/request_op.h"
#include "gpu/table/fixed_loops.h"

namespace isotherm {

template <class Tile>
struct FixedStages {
  // How many rows the prefetch runs ahead.
  static constexpr size_t ahead = 16;

  static ISOTHERM_INLINE void prefetch(const FixedRun& run, size_t row, bool for_update) {
    if (row < run.rows) run.index.lines().prefetch(run.index.hash(run.keys[row]), for_update);
  }

  static FixedDone get(const FixedRun& run) {
    FixedDone done{run.rows, 0};
    for (size_t i = 0; i < ahead; ++i) prefetch(run, i, false);
    for (size_t i = 0; i < run.rows; ++i) {
      prefetch(run, i + ahead, false);
      const Found found = run.index.find<Tile>(run.index.hash(run.keys[i]));
      if (found.found) run.values_out[i] = found.word;
      run.found_out[i] = static_cast<uint8_t>(found.found);
      done.found += static_cast<size_t>(found.found);
    }
    return done;
  }

  // Updates every row; decide(i, found, word) -> Decision.
  template <class Decide, class Show>
  static ISOTHERM_INLINE FixedDone update(const FixedRun& run, Decide decide, Show show) {
    FixedDone done;
    for (size_t i = 0; i < ahead; ++i) prefetch(run, i, true);
    for (size_t i = 0; i < run.rows; ++i) {
      prefetch(run, i + ahead, true);
      const uint64_t hash = run.index.hash(run.keys[i]);
      const Updated updated = run.index.update<Tile>(
          hash, [&](bool found, uint64_t) -> Decision { return decide(i, found); });
      if (updated.change == Change::no_line) break;
      done.found += static_cast<size_t>(updated.previous.found);
      show(i, updated);
      ++done.rows;
    }
    return done;
  }

  static ISOTHERM_INLINE void show_previous(const FixedRun& run, size_t i, const Updated& updated) {
    if (run.found_out == nullptr) return;
    run.found_out[i] = static_cast<uint8_t>(updated.previous.found);
    if (updated.previous.found) run.values_out[i] = updated.previous.word;
  }

  static FixedDone put(const FixedRun& run) {
    if (run.only_absent) {
      return update(
          run,
          [&](size_t i, bool found) -> Decision {
            return {found ? Action::keep : Action::store, run.values[i]};
          },
          [&](size_t i, const Updated& updated) {
            run.found_out[i] = static_cast<uint8_t>(!updated.previous.found);
          });
    }
    return update(
        run,
        [&](size_t i, bool) -> Decision {
          return {Action::store, run.values[i]};
        },
        [&](size_t i, const Updated& updated) { show_previous(run, i, updated); });
  }

  static FixedDone erase(const FixedRun& run) {
    return update(
        run,
        [](size_t, bool) -> Decision {
          return {Action::erase, 0};
        },
        [&](size_t i, const Updated& updated) { show_previous(run, i, updated); });
  }

  static void answer(FixedIndex& index, const TableRequests& requests) {
    const auto prefetch_row = [&](size_t row) {
      if (row < requests.rows) index.lines().prefetch(index.hash(requests.keys[row]), true);
    };
    for (size_t i = 0; i < ahead; ++i) prefetch_row(i);
    for (size_t i = 0; i < requests.rows; ++i) {
      prefetch_row(i + ahead);
      const KeyState before = answer_row(index, requests, i);
      if (requests.found == nullptr) continue;
      requests.found[i] = before.found;
      if (before.found == 1) requests.values_out[i] = before.value;
    }
  }

 private:
  // The state before; reply_retry where memory ended.
  static ISOTHERM_INLINE KeyState answer_row(FixedIndex& index, const TableRequests& requests,
                                             size_t row) {
    const uint64_t hash = index.hash(requests.keys[row]);
    const TableOp op = requests.ops != nullptr ? requests.ops[row] : requests.op;
    if (!is_write(op)) {
      const Found found = index.find<Tile>(hash);
      return {found.word, static_cast<uint8_t>(found.found)};
    }
    const uint64_t value = requests.values != nullptr ? requests.values[row] : 0;
    const uint64_t expected = requests.expected != nullptr ? requests.expected[row] : 0;
    try {
      const Updated updated = index.update<Tile>(hash, [&](bool found, uint64_t word) -> Decision {
        const KeyState before{word, static_cast<uint8_t>(found)};
        return decision(before, apply(op, value, expected, before));
      });
      if (updated.change == Change::no_line) return {0, reply_retry};
      return {updated.previous.word, static_cast<uint8_t>(updated.previous.found)};
    } catch (const std::bad_alloc&) {  // for the index's own lists
      return {0, reply_retry};
    }
  }

  static ISOTHERM_INLINE Decision decision(const KeyState& before, const KeyState& after) {
    if (after.found == 0) return {before.found != 0 ? Action::erase : Action::keep, 0};
    const bool same = before.found != 0 && before.value == after.value;
    return {same ? Action::keep : Action::store, after.value};
  }
};

}  // namespace isotherm
