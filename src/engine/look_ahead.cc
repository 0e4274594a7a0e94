// The part of BatchRunner that looks, before the rows of a batch with views run, which of them need
// what memory has not (executor/backing.h), so that all of it is read together.
//
// Such a row is parked, and with it all rows of its view, which are to be seen together; rows
// behind them on their keys follow. It is done once a batch: a row that runs again, and whose key
// memory has forgotten in between, reads it on the spot.
#include "base/tile.h"
#include "engine/batch_runner.h"
#include "engine/engine_state.h"
#include "executor/backing.h"
#include "executor/host/backed_rows.h"

namespace isotherm {

// Finds what the row has to wait for; null: nothing.
Awaited* BatchRunner::coming(const Batch::Columns& columns, Batch::Row row, int64_t now_ms) const {
  const HostStore& store = engine_.store;
  const Request request{
      columns.op[row], columns.options[row], columns.database[row], 0, columns.key[row], {}, 0, 0};
  if (!needs_old(request)) return nullptr;
  if (const LineIndex* index = store.databases[request.database].index(); index != nullptr) {
    const Location root = index->find<TilePlain>(columns.hash[row]).word;
    if (resolve(store.items, root, request.key).item != nullptr) return nullptr;
  }
  Backing::Stored stored;
  const bool comes = store.backing->look(request.database, request.key, now_ms, false, stored) ==
                     Backing::Answer::coming;
  return comes ? stored.awaited : nullptr;
}

void BatchRunner::look_ahead(BatchRun& run) {
  Batch& batch = *run.batch;
  auto view = batch.views().begin();
  for (Batch::Row first = 0, end = 0; first < batch.size(); first = end) {
    while (view != batch.views().end() && view->end <= first) ++view;
    const bool in_view = view != batch.views().end() && view->first <= first;
    end = in_view ? view->end : first + 1;
    bool any = false;
    ahead_.clear();
    for (Batch::Row row = first; row < end; ++row) {
      ahead_.push_back(coming(batch.columns(), row, run.now_ms));
      any |= ahead_.back() != nullptr;
    }
    if (!any) continue;
    if (run.early.empty()) run.early.resize(batch.size());
    for (Batch::Row row = first; row < end; ++row) {
      run.early[row] = 1;
      run.park(batch, row, ahead_[row - first]);
    }
  }
}

}  // namespace isotherm
