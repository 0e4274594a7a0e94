// The part of BatchRunner that runs rows of a batch as a whole waits for keys, and may leave it to
// others then to go on.
#include <algorithm>
#include <new>
#include <unordered_set>

#include "engine/batch_runner.h"
#include "engine/engine_state.h"

namespace isotherm {

// Whether it has what it waits for already.
bool BatchRunner::wait_whole(BatchRun& run) {
  run_early(run);
  if (crew_ != nullptr) run.owner.moved(run, BatchRun::Phase::answered);
  return run.end_whole();
}

// Runs rows of a batch whose groups wait: those whose keys neither others nor its own groups have.
// Rows of views do not run, since a view needs all of its rows; and none runs where the batch
// flushes, since the rows behind the flush must come after it.
void BatchRunner::run_early(BatchRun& run) {
  Batch& batch = *run.batch;
  const auto flushes = [](const Batch::Guard& guard) { return guard.check == nullptr; };
  const auto& guards = batch.guards();
  if (!run.early.empty() || std::any_of(guards.begin(), guards.end(), flushes)) return;
  engine_.store.epochs.enter(run.slot);
  try {
    if (engine_.device) prepare_device(run);
    engine_.store.gate.begin(*holder_, batch.columns(), 0, batch.size());
    if (find_early(batch)) {
      run.early.resize(batch.size());
      std::transform(parked_.begin(), parked_.end(), run.early.begin(),
                     [](uint8_t parked) { return parked == 0 ? 1 : 0; });
      executor_.set_gated(&run.slot, holder_);
      run_unparked(run, batch, 0, batch.size());
    }
  } catch (const std::bad_alloc&) {  // others will resume it, with the rest
    run.refuse_early();
  }
  executor_.set_gated(nullptr, nullptr);
  KeyGate::end_if_begun(*holder_);
  // A batch of which nothing ran holds no memory back while it waits.
  if (run.early.empty()) EpochDomain::leave(run.slot);
}

// Marks those that cannot run in parked_, and says whether any can. A row whose key an earlier row
// waits for cannot run either. One look is enough: no view is among the rows, and whoever takes
// keys meanwhile waits for the rows that were found.
bool BatchRunner::find_early(const Batch& batch) {
  const Batch::Columns& columns = batch.columns();
  std::unordered_set<uint64_t> keys;
  const auto key_of = [&](Batch::Row row) { return columns.hash[row] + columns.database[row]; };
  parked_.assign(batch.size(), 0);
  for (const Batch::Span& span : batch.groups()) {
    for (Batch::Row row = span.first; row < span.end; ++row) keys.insert(key_of(row));
  }
  bool any = false;
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (keys.contains(key_of(row)) || awaited(columns, row) != nullptr) {
      keys.insert(key_of(row));
      parked_[row] = 1;
    } else {
      any = true;
    }
  }
  return any;
}

}  // namespace isotherm
