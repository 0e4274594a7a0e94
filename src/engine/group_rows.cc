// The part of BatchRunner that runs the rows and guards of batches with groups, whose keys they
// have.
#include <algorithm>
#include <functional>
#include <span>

#include "base/broken.h"
#include "engine/all_or_none.h"
#include "engine/batch_runner.h"
#include "engine/engine_state.h"

namespace isotherm {

// False: it waits as a whole, and will be resumed.
bool BatchRunner::run_groups(BatchRun& run) {
  if (!take_keys(run)) return false;
  Batch& batch = run.with_groups();
  const bool again = &batch != run.batch;  // its replies of before are of the epoch that it is in
  if (!again && run.early.empty()) engine_.store.epochs.enter(run.slot);
  executor_.set_token(run.token);
  if (engine_.device) prepare_device(run);
  again ? run_gated(run, batch, 0, batch.size()) : run_all(run);
  if (run.told()) [[unlikely]]
    run.end_groups();
  give_keys_back(run);
  if (engine_.device) engine_.device->calm();
  return true;
}

// Runs the rows up to each guard or flush, then that, and the rest in the end. Groups on different
// keys share the rounds of a device.
void BatchRunner::run_all(BatchRun& run) {
  const Batch& batch = *run.batch;
  has_plenty_ = has_plenty_for(batch);
  Batch::Row done = 0;
  for (std::span<const Batch::Guard> guards = batch.guards(); !guards.empty();) {
    const auto together = GroupPhases::together(batch, guards);
    guards = guards.subspan(together.size());
    const Batch::Row end = guards.empty() ? batch.size() : guards.front().row;
    if (engine_.on_device() && GroupPhases::shares(batch, together)) {
      run_phases(run, done, end, together);
      done = end;
    } else {
      for (const Batch::Guard& guard : together) run_to(run, done, guard);
    }
    if (guards.empty()) break;
    run_to(run, done, guards.front());
    guards = guards.subspan(1);
  }
  run_gated(run, *run.batch, done, batch.size());
}

// Runs the rows from `done` up to the guard, and the guard; but puts for which there is room in any
// case run together with the rows around them.
void BatchRunner::run_to(BatchRun& run, Batch::Row& done, const Batch::Guard& guard) {
  if (has_plenty_) {
    const auto puts = puts_behind(*run.batch, guard);
    if (puts.first != puts.end) return let_run_over_cap(*run.batch, puts);
  }
  run_gated(run, *run.batch, done, guard.row);
  done = guard.row;
  if (guard.check != nullptr) {
    call(run, guard);
  } else if (run.batch->columns().op[done] == Op::flush) {
    flush(run, done++);
  }
}

void BatchRunner::run_phases(BatchRun& run, Batch::Row first, Batch::Row end,
                             std::span<const Batch::Guard> guards) {
  Batch& batch = *run.batch;
  for (phases_.plan(batch, first, end, guards); !phases_.done(); phases_.next()) {
    run_gated(run, batch, first, end);
    for (size_t i = 0; i < guards.size(); ++i) {
      if (phases_.calls(i)) call(run, guards[i]);
    }
  }
  phases_.clear();
}

void BatchRunner::call(BatchRun& run, const Batch::Guard& guard) {
  Batch& batch = *run.batch;
  const bool cancelled = guard.row < batch.size() && batch.columns().op[guard.row] == Op::none;
  if (cancelled || broken(Rule::guards)) return;
  // A guard may look at values, so they have to be there.
  if (engine_.device) finish_values(run);
  if (const auto puts = puts_behind(batch, guard); puts.first != puts.end) {
    return find_room_for_all(run, puts);
  }
  guard.check(batch, guard.row, guard.context);
}

// Marks in parked_ what is not to run now: what ran early, and rows of other phases. Whether there
// are any.
bool BatchRunner::leave_out(const BatchRun& run, const Batch& batch, Batch::Row first,
                            Batch::Row end) {
  const bool some_early = &batch == run.batch && !run.early.empty();
  if (!some_early && phases_.done()) return false;
  parked_.resize(end - first);
  for (Batch::Row row = first; row < end; ++row) {
    const bool early = some_early && run.early[row] != 0;
    parked_[row - first] = early || (!phases_.done() && !phases_.has(row)) ? 1 : 0;
  }
  return true;
}

// Runs while the batch has the databases (executor/key_gate.h), so nobody else works on their keys.
void BatchRunner::flush(const BatchRun& run, Batch::Row row) {
  const Batch::Columns& columns = run.batch->columns();
  if (const std::string_view work = columns.value[row]; !work.empty()) {
    (*reinterpret_cast<const std::function<void()>*>(work.data()))();
    columns.reply[row].status.store(Status::ok, std::memory_order_release);
    return;
  }
  const uint32_t first = columns.database[row];
  const uint32_t end = std::min<uint64_t>(columns.number[row], engine_.store.databases.size());
  CommitSink* const sink = engine_.store.sink;
  uint64_t version = 0;
  const bool flushed =
      engine_.on_device() &&
      engine_.device->flush(participant_, first, end, engine_.clock.now_ms(), version);
  const bool empty_only = (columns.options[row] & option::if_absent) != 0;
  for (uint32_t database = first; database < end; ++database) {
    const Database& its = engine_.store.databases[database];
    if (empty_only && !its.is_bare()) continue;
    if (!empty_only) executor_.counters().changes.add(its.count() + 1);
    if (!flushed) version = engine_.store.flush_index(database);
    // What memory lacks stays in the files.
    const bool all_is_gone = !empty_only || engine_.store.backing == nullptr;
    if (sink != nullptr && all_is_gone) sink->flushed(database, version, run.token);
  }
  columns.reply[row].status.store(Status::ok, std::memory_order_release);
}

}  // namespace isotherm
