// CacheRoots: gives the passes of the host executor the roots of keys, in a store whose indexes
// have a fixed size. host_stages.h says who includes this file and what may stand in it.
//
// A read that finds its key's hash counts as a use of the entry there and then, unless its request
// says that it is none. Time goes by requests: a run takes as many moments as it has rows.
#pragma once

#include "executor/host/evicting_index.h"
#include "executor/host/host_stages.h"

namespace isotherm {

template <class Part>
struct CacheRoots {
  using Lines = LineRoots<TilePlain>;
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Index = CacheIndexOf<Part>;
  using Start = const Index*;

  // How many rows before its entry is read it is asked for, at least.
  static constexpr Row entries_ahead = 8;

  static ISOTHERM_INLINE Index* index_of(const Run& run, Row row) {
    return static_cast<Index*>(run.executor.store().databases[run.columns.database[row]].cache());
  }
  static ISOTHERM_INLINE uint64_t time_of(const Run& run, Row row) {
    return run.executor.first_time_ + row;
  }

  static ISOTHERM_INLINE void begin(Run& run, Row rows) {
    HostExecutor& executor = run.executor;
    executor.rows_ = rows;
    executor.first_time_ = 1;
    if constexpr (Part::by_time) executor.first_time_ = executor.store().take_time(rows);
  }
  static ISOTHERM_INLINE void note(Run& /*run*/, Row /*rows*/) {}

  static ISOTHERM_INLINE Location find(const Run& run, Row row) {
    const Index* index = index_of(run, row);
    return index == nullptr ? location::none : find_in(run, row, *index);
  }
  static ISOTHERM_INLINE Start start(const Run& run, Row row) {
    const Index* index = index_of(run, row);
    if (index != nullptr) index->prefetch(run.columns.hash[row]);
    return index;
  }
  // Rows some way behind this one have started. The first write of a database makes its index, and
  // may stand between `start` and here.
  static ISOTHERM_INLINE Location root(const Run& run, Row row, Start index) {
    if (index == nullptr) return find(run, row);
    ask_for_entry(run, row, *index);
    return find_in(run, row, *index);
  }
  static ISOTHERM_INLINE void prefetch(const Run& run, Row row) { start(run, row); }

  ISOTHERM_INLINE EvictingIndex<Part>* to_write(const Run& run, Row row, const Request& request,
                                                Reply& reply) {
    HostStore& store = run.executor.store();
    Database& database = store.databases[request.database];
    CacheIndex* index = database.cache();
    if (ISOTHERM_UNLIKELY(index == nullptr)) {
      const bool leaves = Lines::leaves_absent(request);
      if (!leaves) index = store.make_cache(database);
      if (index == nullptr) {
        reply.status.store(leaves ? Status::not_found : Status::out_of_memory,
                           std::memory_order_release);
        return nullptr;
      }
    }
    index_ = EvictingIndex<Part>(static_cast<Index&>(*index), run.executor, request.database,
                                 time_of(run, row));
    return &index_;
  }

  static ISOTHERM_INLINE void answer_object(Run& run, Row row, const Request& request,
                                            EvictingIndex<Part>& index) {
    answer_object_on_host(run, row, request, index);
  }

 private:
  static ISOTHERM_INLINE Location find_in(const Run& run, Row row, const Index& index) {
    const uint64_t hash = run.columns.hash[row];
    const CachePlace place = index.find(hash);
    const bool uses =
        run.columns.op[row] == Op::get && (run.columns.options[row] & option::no_touch) == 0;
    if (place.found && uses) index.touch(hash, place, time_of(run, row));
    return place.word;
  }
  // Of the row some way behind this one, whose database is mostly the same.
  static ISOTHERM_INLINE void ask_for_entry(const Run& run, Row row, const Index& index) {
    if (row + entries_ahead >= run.executor.rows_) return;
    index.prefetch_entry(run.columns.hash[row + entries_ahead]);
  }

  EvictingIndex<Part> index_;  // of the row that is being written
};

}  // namespace isotherm
