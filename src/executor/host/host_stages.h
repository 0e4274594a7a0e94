// HostStages: the passes of the host executor, as templates over the tile. See host_executor.h.
//
// Only the files host_stages_*.cc include this, one per instruction set. Everything here must be a
// template over Tile or always inlined: a shared inline function compiled here for AVX-512 could be
// the copy that the linker keeps for everybody (tools/check_isa_symbols.sh watches that).
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "executor/host/bare_items.h"
#include "executor/host/host_stages_entry.h"
#include "executor/host/row_answers.h"

namespace isotherm {

// The roots of keys in the line indexes of the host.
template <class Tile>
struct LineRoots {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Start = const Bucket*;  // what `start` tells `root`

  static ISOTHERM_INLINE LineIndex* index_of(const Run& run, Row row) {
    return run.executor.store().databases[run.columns.database[row]].index();
  }

  static ISOTHERM_INLINE Location find(const Run& run, Row row) {
    const LineIndex* index = index_of(run, row);
    return index == nullptr ? location::none : index->find<Tile>(run.columns.hash[row]).word;
  }

  // The home line of a row's key, on its way; null where the database is empty. Rows behind each
  // other are mostly of one database, whose view is kept for the few that an object is asked for.
  ISOTHERM_INLINE Start start(const Run& run, Row row) {
    if (const uint32_t database = run.columns.database[row]; database != database_) {
      const LineIndex* index = index_of(run, row);
      view_ = index != nullptr ? index->view() : IndexView();
      database_ = database;
    }
    if (view_.entries == nullptr) return nullptr;
    const Bucket* const home = view_.home(run.columns.hash[row]);
    __builtin_prefetch(home);
    __builtin_prefetch(reinterpret_cast<const char*>(home) + 64);
    return home;
  }
  // The first write of a database makes its index, and may stand between `start` and here.
  static ISOTHERM_INLINE Location root(const Run& run, Row row, Start home) {
    if (home == nullptr) return find(run, row);
    return isotherm::find(Tile{}, home, run.columns.hash[row]).word;
  }
  static ISOTHERM_INLINE void prefetch(const Run& run, Row row) {
    const LineIndex* index = index_of(run, row);
    if (index != nullptr) index->prefetch(run.columns.hash[row], run.columns.op[row] != Op::get);
  }
  // Before all rows, and behind them.
  static ISOTHERM_INLINE void begin(Run& /*run*/, Row /*rows*/) {}
  static ISOTHERM_INLINE void note(Run& /*run*/, Row /*rows*/) {}

  // Whether it does nothing to a key that is not there.
  static ISOTHERM_INLINE bool leaves_absent(const Request& request) {
    return request.op == Op::erase || request.op == Op::expire || request.op == Op::get ||
           request.op == Op::none ||
           (request.op == Op::call && function_of(request).make == nullptr);
  }
  static ISOTHERM_INLINE LineIndex* to_write(const Run& run, Row /*row*/, const Request& request,
                                             Reply& reply) {
    HostStore& store = run.executor.store();
    Database& database = store.databases[request.database];
    if (LineIndex* index = database.index(); index != nullptr) return index;
    if (store.backing == nullptr && leaves_absent(request)) {
      reply.status.store(Status::not_found, std::memory_order_release);
      return nullptr;
    }
    LineIndex* index = nullptr;
    if (store.may_begin_index((request.options & option::over_cap) != 0))
      index = database.make_index(store.pages, store.budget, store.epochs);
    if (index == nullptr) reply.status.store(Status::out_of_memory, std::memory_order_release);
    return index;
  }

  static ISOTHERM_INLINE void answer_object(Run& run, Row row, const Request& request,
                                            LineIndex& index) {
    answer_object_on_host(run, row, request, index);
  }
  // Whether the row is answered, as a put of a bare item.
  template <bool told>
  static __attribute__((noinline)) bool put_bare(Run& run, Row row) {
    LineIndex* const index = index_of(run, row);
    return index != nullptr && BareItems<Tile>::template put<told>(run, row, *index);
  }

 private:
  uint32_t database_ = UINT32_MAX;  // of the view; that: there is none
  IndexView view_;
};

// The keys that the rows of a moment ago have written, by their hashes: what was found before is
// not looked at for these, and for a few others.
class LateWrites {
 public:
  ISOTHERM_INLINE void add(uint64_t hash) { now_ |= bit(hash); }
  ISOTHERM_INLINE bool has(uint64_t hash) const { return ((now_ | before_) & bit(hash)) != 0; }
  // Those that were added before the last turn are forgotten.
  ISOTHERM_INLINE void turn() { before_ = std::exchange(now_, 0); }

 private:
  // Of the middle of the hash, since keys of one line agree elsewhere.
  static ISOTHERM_INLINE uint64_t bit(uint64_t hash) { return uint64_t{1} << (hash >> 32) % 64; }

  uint64_t now_ = 0;
  uint64_t before_ = 0;
};

template <class Tile, class Roots>
struct HostStages {
  using Row = Batch::Row;
  using Run = HostExecutor::Run;
  using Answers = RowAnswers<Tile, Roots>;

  static constexpr Row hashed_at_once = 32;
  // Rows that wait for their lines, and rows that wait for their items: more than a core's
  // outstanding misses together, few enough to stay in the first-level cache.
  static constexpr Row rows_ahead = 16;
  static constexpr Row few = 8;  // rows of one pass before those of the next
  static_assert(rows_ahead % few == 0 && hashed_at_once % few == 0);

  static void run(Run& run, Row rows) {
    Roots::begin(run, rows);
    if (rows == 1) {
      run_one(run);
    } else {
      run.reads_only ? run_passes<false>(run, rows) : run_passes<true>(run, rows);
    }
    Roots::note(run, rows);
  }

 private:
  // The only row. While the line of a write is on its way, a put prepares its item.
  static ISOTHERM_INLINE void run_one(Run& run) {
    hash(run, 0, 1);
    Location root = location::none;
    if (!is_left(run, 0)) {
      Roots::prefetch(run, 0);
      if (run.columns.op[0] == Op::get) {
        root = Roots::find(run, 0);
      } else {
        fetch_for_sink(run, 0);
      }
    }
    LateWrites written;
    answer<true>(run, 0, 1, &root, written);
  }

  // The three passes at once, each `rows_ahead` rows behind the one before (where there are so
  // many) and by a few rows in turn, so that lines and items arrive evenly. Before its first row a
  // pass is at a number that wraps. While a row is answered, the roots are known that the next
  // `rows_ahead` rows had before.
  template <bool writes>
  static ISOTHERM_INLINE void run_passes(Run& run, Row rows) {
    typename Roots::Start starts[rows_ahead];
    Location roots[rows_ahead];
    LateWrites written;
    const Row ahead = std::min((rows + few - 1) / few * few, rows_ahead);
    const Row end = rows + 2 * ahead;
    for (Row from = 0; from < end; from += few) {
      if (const Row at = from - 2 * ahead; at < rows) {
        if (writes && at % rows_ahead == 0) written.turn();
        answer<writes>(run, at, std::min(rows, at + few), roots + at % rows_ahead, written);
      }
      if (const Row at = from - ahead; at < rows) {
        find_roots<writes>(run, at, std::min(rows, at + few), starts + at % rows_ahead,
                           roots + at % rows_ahead);
      }
      if (from < rows) {
        if (from % hashed_at_once == 0) hash(run, from, std::min(rows, from + hashed_at_once));
        start<writes>(run, from, std::min(rows, from + few), starts + from % rows_ahead);
      }
    }
  }

  static ISOTHERM_INLINE void fetch_for_sink(const Run& run, Row row) {
    const CommitSink* const sink = run.executor.store().sink.load(std::memory_order_relaxed);
    if (ISOTHERM_LIKELY(sink == nullptr)) return;
    sink->fetch_ahead(run.columns.database[row], run.columns.hash[row]);
  }

  // The passes over a few rows: functions of their own, so that each has its registers.
  template <bool writes>
  static __attribute__((noinline)) void start(const Run& run, Row from, Row to,
                                              typename Roots::Start* starts) {
    Roots lines;
    for (Row row = from; row < to; ++row, ++starts) {
      if (writes && is_left(run, row)) continue;
      if (writes && run.columns.op[row] != Op::get) {
        Roots::prefetch(run, row);
        fetch_for_sink(run, row);
      }
      *starts = lines.start(run, row);
    }
  }
  template <bool writes>
  static __attribute__((noinline)) void find_roots(const Run& run, Row from, Row to,
                                                   const typename Roots::Start* starts,
                                                   Location* roots) {
    HostStore& store = run.executor.store();
    for (Row row = from; row < to; ++row, ++starts, ++roots) {
      if (writes && is_left(run, row)) continue;
      *roots = Roots::root(run, row, *starts);
      const bool reads = !writes || run.columns.op[row] == Op::get;
      prefetch_item(store, *roots, reads);
      if (!reads && *roots == location::none) {
        store.items.probation().prefetch(run.columns.hash[row]);
      }
    }
  }
  // A root that is looked up again, since its key may have been written, is as new as a write: a
  // read behind it that found its own before must not show what was there earlier.
  template <bool writes>
  static __attribute__((noinline)) void answer(Run& run, Row from, Row to, const Location* roots,
                                               LateWrites& written) {
    Roots lines;
    for (Row row = from; row < to; ++row, ++roots) {
      if (ISOTHERM_UNLIKELY(run.passes_some) && run.passes_over(row)) continue;
      if constexpr (!writes) {
        Answers::get(run, lines, row, *roots);
      } else {
        const uint64_t hash = run.columns.hash[row];
        const bool reads = run.columns.op[row] == Op::get;
        if (is_left(run, row) || (!reads && waits_behind_get(run, hash))) {
          Answers::get_later(run, row);
        } else if (!reads) {
          written.add(hash);
          if (!puts_bare(run, row)) Answers::change(run, lines, row, run.columns.op[row]);
        } else if (!written.has(hash)) {
          Answers::get(run, lines, row, *roots);
        } else {
          written.add(hash);
          Answers::get(run, lines, row, Roots::find(run, row));
        }
      }
    }
  }

  static ISOTHERM_INLINE bool puts_bare(Run& run, Row row) {
    if constexpr (std::is_same_v<Roots, LineRoots<Tile>>) {
      if (!BareItems<Tile>::is_put(run, row)) return false;
      return run.executor.store().sink != nullptr ? Roots::template put_bare<true>(run, row)
                                                  : Roots::template put_bare<false>(run, row);
    }
    return false;
  }

  static ISOTHERM_INLINE void hash(Run& run, Row from, Row to) {
    if (!run.hashed) run.executor.hash_keys(run.columns, from, to);
  }
  static ISOTHERM_INLINE bool is_left(const Run& run, Row row) {
    return ISOTHERM_UNLIKELY(run.leaves_gets) && run.columns.op[row] == Op::get;
  }
  // A row behind a get that is answered directly keeps its place.
  static ISOTHERM_INLINE bool waits_behind_get(const Run& run, uint64_t hash) {
    return ISOTHERM_UNLIKELY(run.direct != nullptr) && run.direct->has(hash);
  }
};

}  // namespace isotherm
