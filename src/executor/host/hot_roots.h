// HotRoots: gives the passes of the host executor the roots of keys, in a store whose hot keys have
// a table of their own (router/hot_side.h). host_stages.h says who includes this file and what may
// stand in it.
//
// Reads of hot keys ask the table first, and the index where it does not know. Changes go to the
// index as always; before one its key is taken out of the table, and afterwards it is put back
// (HotIndex). Some of the keys are noted, so that the router learns which are hot.
#pragma once

#include "executor/host/host_stages.h"
#include "router/hot_side.h"

namespace isotherm {

template <class Tile>
struct HotRoots {
  using Lines = LineRoots<Tile>;
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Start = const LineIndex*;

  static ISOTHERM_INLINE HotTable& table(const Run& run) {
    return run.executor.store().hot->table();
  }
  static ISOTHERM_INLINE FastUse& use(const Run& run) { return run.executor.counters().fast; }

  static ISOTHERM_INLINE Start start(const Run& run, Row row) {
    const LineIndex* index = Lines::index_of(run, row);
    if (index != nullptr) table(run).prefetch(*index, run.columns.hash[row], use(run));
    return index;
  }
  // The first write of a database makes its index, and may stand between `start` and here.
  static ISOTHERM_INLINE Location root(const Run& run, Row row, Start index) {
    if (index == nullptr) index = Lines::index_of(run, row);
    if (index == nullptr) return location::none;
    return table(run).template find<Tile>(*index, run.columns.hash[row], use(run)).word;
  }
  static ISOTHERM_INLINE Location find(const Run& run, Row row) {
    return root(run, row, Lines::index_of(run, row));
  }
  static ISOTHERM_INLINE void prefetch(const Run& run, Row row) {
    if (run.columns.op[row] == Op::get) {
      start(run, row);
    } else if (const LineIndex* index = Lines::index_of(run, row); index != nullptr) {
      table(run).prefetch_change(*index, run.columns.hash[row]);
    }
  }
  static ISOTHERM_INLINE void begin(Run& /*run*/, Row /*rows*/) {}
  static ISOTHERM_INLINE void note(Run& run, Row rows) {
    run.executor.note_keys({run.columns.hash, rows});
  }

  ISOTHERM_INLINE HotIndex* to_write(const Run& run, Row row, const Request& request,
                                     Reply& reply) {
    LineIndex* index = Lines::to_write(run, row, request, reply);
    if (index == nullptr) return nullptr;
    index_ = HotIndex(table(run), *index);
    return &index_;
  }

  static ISOTHERM_INLINE void answer_object(Run& run, Row row, const Request& request,
                                            HotIndex& index) {
    answer_object_on_host(run, row, request, index);
  }

 private:
  HotIndex index_;  // of the row that is being written
};

}  // namespace isotherm
