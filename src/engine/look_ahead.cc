// The part of BatchRunner that looks, before the rows of a batch with views run, which of them need
// what memory has not (executor/backing.h), so that all of it is read together.
//
// Such a row is parked, and with it all rows of its view, which are to be seen together; rows
// behind them on their keys follow. Where the backing answers gets while the thread goes on, it is
// asked for all rows of such a view. It is done once a batch: a row that runs again, and whose key
// memory has forgotten in between, reads it on the spot.
#include <unordered_set>
#include <vector>

#include "base/tile.h"
#include "engine/batch_runner.h"
#include "engine/engine_state.h"
#include "executor/backing.h"
#include "executor/host/backed_rows.h"
#include "executor/host/direct_rows.h"

namespace isotherm {

// Whether the row needs its key's item, and memory lacks it.
bool BatchRunner::is_missing(const Batch::Columns& columns, Batch::Row row) const {
  const HostStore& store = engine_.store;
  const Request request{
      columns.op[row], columns.options[row], columns.database[row], 0, columns.key[row], {}, 0, 0};
  if (!needs_old(request)) return false;
  const LineIndex* const index = store.databases[request.database].index();
  if (index == nullptr) return true;
  const Location root = index->find<TilePlain>(columns.hash[row]).word;
  return resolve(store.items, root, request.key).item == nullptr;
}

// Finds what the row has to wait for; null: nothing.
Awaited* BatchRunner::coming(const Batch::Columns& columns, Batch::Row row, int64_t now_ms) const {
  if (!is_missing(columns, row)) return nullptr;
  Backing::Stored stored;
  const bool comes = engine_.store.backing->look(columns.database[row], columns.key[row], now_ms,
                                                 false, stored) == Backing::Answer::coming;
  return comes ? stored.awaited : nullptr;
}

// Whether memory lacks some of the rows, and the backing may answer all of them together. `others`:
// keys of rows before these that are no such gets. They may run behind what the backing answers.
bool BatchRunner::may_start(const Batch::Columns& columns, Batch::Row first, Batch::Row end,
                            std::unordered_set<uint64_t>& others) const {
  bool plain = true;
  for (Batch::Row row = first; row < end; ++row) {
    const uint64_t key = BatchRun::key_of(columns, row);
    if (DirectRows::asks(columns, row)) {
      plain = plain && (others.empty() || !others.contains(key));
    } else {
      plain = false;
      others.insert(key);
    }
  }
  bool any = false;
  for (Batch::Row row = first; row < end && plain && !any; ++row) any = is_missing(columns, row);
  for (Batch::Row row = first; row < end && any; ++row) {
    any = !engine_.store.backing->has_changed(columns.database[row], columns.key[row]);
  }
  return any;
}

void BatchRunner::look_ahead(BatchRun& run) {
  Batch& batch = *run.batch;
  const bool starts = !waits_ && run.may_ask() && engine_.store.backing->starts_directly() &&
                      engine_.store.gate.nobody_has();
  std::vector<Batch::Row> together;  // rows of views that the backing answers
  std::unordered_set<uint64_t> others;
  const auto leave_out = [&](Batch::Row row) {
    if (run.early.empty()) run.early.resize(batch.size());
    run.early[row] = 1;
  };
  auto view = batch.views().begin();
  for (Batch::Row first = 0, end = 0; first < batch.size(); first = end) {
    while (view != batch.views().end() && view->end <= first) ++view;
    const bool in_view = view != batch.views().end() && view->first <= first;
    end = in_view ? view->end : first + 1;
    if (starts && may_start(batch.columns(), first, end, others)) {
      for (Batch::Row row = first; row < end; ++row) together.push_back(row);
      continue;
    }
    bool any = false;
    ahead_.clear();
    for (Batch::Row row = first; row < end; ++row) {
      ahead_.push_back(coming(batch.columns(), row, run.now_ms));
      any |= ahead_.back() != nullptr;
    }
    if (!any) continue;
    for (Batch::Row row = first; row < end; ++row) {
      leave_out(row);
      run.park(batch, row, ahead_[row - first]);
    }
  }
  if (together.empty()) return;
  std::vector<Batch::Row> left;
  executor_.start_together(run, together, left);
  for (const Batch::Row row : together) leave_out(row);
  for (const Batch::Row row : left) {
    run.park(batch, row, coming(batch.columns(), row, run.now_ms));
  }
}

}  // namespace isotherm
