// The loops of a FixedTable over arrays, as templates over the tile.
//
// A rolling prefetch runs some rows ahead of the row that is probed; nothing else hangs behind a
// line, so one pass is enough. As with host_stages.h only the files of one instruction set include
// this, and everything is a template over Tile or always inlined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/fixed_loops.h"

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
};

}  // namespace isotherm
