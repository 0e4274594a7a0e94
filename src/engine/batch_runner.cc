#include "engine/batch_runner.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "base/broken.h"
#include "command/changes.h"
#include "engine/engine_state.h"
#include "engine/walk.h"
#include "executor/batch_bytes.h"
#include "gpu/platform/device_error.h"

namespace isotherm {

BatchRunner::BatchRunner(EngineState& engine, bool waits, Executor* crew, ValueFetchers* fetchers)
    : engine_(engine),
      waits_(waits),
      crew_(crew),
      fetchers_(fetchers),
      taken_(engine.store.epochs),
      slot_(*taken_.slot),
      gate_holder_(engine.store.gate),
      holder_(&gate_holder_.holder),
      executor_(engine.store),
      participant_(executor_),
      reader_(make_reader(engine.store)),
      upkeep_(executor_, slot_, engine.device.get(), &participant_, reader_.get()) {
  {
    const EpochGuard guard(engine.store.epochs, slot_);
    check_reader(reader_.get());
  }
  executor_.may_wait(waits);
  engine_.add_executor(executor_);
}

BatchRunner::~BatchRunner() { engine_.remove_executor(executor_); }

std::unique_ptr<ValueReader> BatchRunner::make_reader(HostStore& store) {
  if (store.values == nullptr || store.values->lost()) return nullptr;
  try {
    return std::make_unique<ValueReader>(*store.values, store.budget);
  } catch (const DeviceError&) {
    return nullptr;
  }
}

// Within an epoch.
void BatchRunner::check_reader(const ValueReader* reader) {
  const DeviceValues* values = engine_.store.values;
  if (reader == nullptr && values != nullptr && !values->lost()) engine_.device->fail();
}

Submitted BatchRunner::submit(BatchRun& run) {
  run.executor = crew_ != nullptr ? crew_ : this;
  try {
    run_rows(run);
    if (run.batch->has_groups() && !run_groups(run)) return Submitted::under_way;
  } catch (const std::bad_alloc&) {
    give_up(run);
  }
  return settle(run);
}

// All but those of a batch with groups.
void BatchRunner::run_rows(BatchRun& run) {
  Batch& batch = *run.batch;
  CommitSink* const sink = engine_.store.sink;
  if (sink != nullptr && batch.writes() && !batch.walks() && sink->refuses()) [[unlikely]]
    run.refuse_writes(sink->refuses_erases());
  // A thread that holds replies must not wait for room: the memory that they keep may be what it
  // waits for. Threads of the crew hold none.
  run.writable = (crew_ == nullptr && run.beside_others) || make_room(run);
  if (sink != nullptr) [[unlikely]]
    begin_commits(run, *sink, false);
  executor_.counters().batches.add(1);
  set_parking(run);
  if (batch.writes()) writes_ += batch.size();
  if (batch.has_groups()) {
    batch.close_groups();
    hash_keys(batch);
  } else {
    batch.walks() ? run_walks(run, batch) : run_plain(run);
  }
}

// Ends what was begun of the rows. A batch that others will resume is not given up.
void BatchRunner::give_up(BatchRun& run) {
  executor_.set_gated(nullptr, nullptr);
  KeyGate::end_if_begun(*holder_);
  EpochDomain::rest(run.slot);
  delay_ = nullptr;
  phases_.clear();
  if (KeyGate::has_keys(*holder_)) {
    if (run.told()) run.end_groups();
    give_keys_back(run);
    if (engine_.device) engine_.device->calm();
  }
  try {
    if (engine_.device) finish_values(run);
  } catch (const std::bad_alloc&) {  // what it lacks now is answered as the rest
  }
  run.give_up();
}

// If a batch has rows that are to be seen together, all its keys are looked for before it runs
// (look_ahead); what memory still lacks then is read on the spot.
void BatchRunner::set_parking(BatchRun& run) {
  const HostStore& store = engine_.store;
  const bool stops = store.makes_room() && engine_.device == nullptr && !run.batch->has_groups();
  executor_.set_stops_from(stops ? 0 : HostExecutor::never);
  executor_.set_showing(&run);
  stopped_ = nullptr;
  vain_stops_ = 0;
  if (engine_.store.backing == nullptr) [[likely]]
    return;
  const bool together = run.batch->has_groups() || !run.batch->views().empty();
  executor_.set_parking(together ? nullptr : &run);
}

// Of the batch, or of its rows that have waited.
void BatchRunner::run_walks(BatchRun& run, Batch& batch) {
  const bool waited = &batch != run.batch;
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (Awaited* const what = waited ? nullptr : walk_waits_for(engine_, batch, row)) {
      run.park(batch, row, what);
      continue;
    }
    if (EpochDomain::is_outside(run.slot)) engine_.store.epochs.enter(run.slot);
    walk(engine_, batch, row);
  }
}

// Mostly no group is under way, and then the gate is not asked.
void BatchRunner::run_plain(BatchRun& run) {
  Batch& batch = *run.batch;
  engine_.store.epochs.enter_to_work(run.slot);
  bool gated = engine_.store.gate.armed() || engine_.store.row_gate != nullptr;
  if (engine_.device) {
    prepare_device(run);
    delay_ = delays_writes(batch) ? engine_.write_delay.get() : nullptr;
    gated |= delay_ != nullptr;
  }
  if (engine_.store.backing != nullptr && !batch.views().empty()) [[unlikely]] {
    executor_.hash_keys(batch.columns(), 0, batch.size());
    look_ahead(run);
    gated |= !run.early.empty();
  }
  Batch::Row first = 0;
  while (!gated) {
    first = run_now(run, batch, first, batch.size(), false);
    if (first == batch.size()) break;
    find_memory(run, batch, first);
    gated = engine_.store.gate.armed();
  }
  EpochDomain::rest(run.slot);
  if (!gated) return;
  executor_.hash_keys(batch.columns(), first, batch.size());
  run_gated(run, batch, first, batch.size());
  delay_ = nullptr;
}

bool BatchRunner::delays_writes(const Batch& batch) const {
  return engine_.write_delay != nullptr && batch.writes() && engine_.on_device();
}

void BatchRunner::prepare_device(BatchRun& run) {
  check_reader(run.reader);
  if (run.reader != nullptr) run.reader->fetch_by(fetchers_);
}

// Rows with hashes. Those that wait are parked; all others run.
void BatchRunner::run_gated(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end) {
  if (first == end) return;
  executor_.set_gated(&run.slot, holder_);
  const bool shown = !KeyGate::has_all_rows(*holder_);
  if (shown) engine_.store.gate.begin(*holder_, batch.columns(), first, end);
  bool parks = leave_out(run, batch, first, end);
  if (shown) parks = park_held(run, batch, first, end, parks);
  for (Batch::Row next = first;;) {
    next = parks ? run_unparked(run, batch, next, end, parked_.data() + (next - first))
                 : run_now(run, batch, next, end, true);
    if (next == end) break;
    find_memory(run, batch, next);
  }
  if (shown) KeyGate::end(*holder_);
  executor_.set_gated(nullptr, nullptr);
}

// Whether some are left out. Who takes keys meanwhile waits for the rows that are left, so it looks
// again until it finds nothing new: a view is then before it or behind it. `any`: some were left
// out before.
bool BatchRunner::park_held(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                            bool any) {
  const KeyGate& gate = engine_.store.gate;
  const Batch::Columns& columns = batch.columns();
  const bool others_park = engine_.store.row_gate != nullptr || delay_ != nullptr;
  if (!any && !others_park && !run.has_parked() && gate.nobody_has()) return false;
  for (bool again = true; again;) {
    const uint64_t takes = gate.takes();
    again = false;
    for (Batch::Row row = first; row < end; ++row) {
      if (any && parked_[row - first] != 0) continue;
      const bool behind = run.is_parked(columns, row);
      Awaited* const what = behind ? nullptr : awaited(columns, row);
      if (what == nullptr && !behind) continue;
      if (!any) parked_.assign(end - first, 0);
      any = again = true;
      park(run, batch, row, what, first);
    }
    again = again && gate.takes() != takes;
  }
  return any;
}

// Parks the row, and all rows of the view that it belongs to.
void BatchRunner::park(BatchRun& run, Batch& batch, Batch::Row row, Awaited* what,
                       Batch::Row first) {
  // All writes that are put off go together, so one waits for all.
  if (what != nullptr && what == delay_ && std::exchange(run.put_off, true)) what = nullptr;
  const auto park_one = [&](Batch::Row one, Awaited* its) {
    if (std::exchange(parked_[one - first], 1) == 0) run.park(batch, one, its);
  };
  park_one(row, what);
  const auto before = [](const Batch::Span& view, Batch::Row at) { return view.end <= at; };
  const auto view = std::lower_bound(batch.views().begin(), batch.views().end(), row, before);
  if (view == batch.views().end() || row < view->first) return;
  const auto end = first + static_cast<Batch::Row>(parked_.size());
  for (Batch::Row one = std::max(first, view->first); one < std::min(end, view->end); ++one) {
    park_one(one, nullptr);
  }
}

Awaited* BatchRunner::awaited(const Batch::Columns& columns, Batch::Row row) const {
  const HostStore& store = engine_.store;
  const uint64_t hash = columns.hash[row];
  const uint32_t database = columns.database[row];
  if (Awaited* const holder = store.gate.held(*holder_, hash, database)) return holder;
  if (store.row_gate != nullptr && !store.gate.owns(*holder_, hash, database)) {
    if (Awaited* const what = store.row_gate->awaited(columns, row)) return what;
  }
  return delay_ != nullptr && changes(columns, row) ? delay_ : nullptr;
}

// Gets whose values were lost with a device run again, on the host.
void BatchRunner::finish_values(BatchRun& run) {
  if (run.reader == nullptr) return;
  engine_.device->finish(*run.reader);
  run.each_lost([&](Batch& its, Batch::Row row) {
    executor_.run(its, run.now_ms, run.writable, row, row + 1);
  });
}

// Where the device is lost on the way, the remaining rows run on the host. Rows of a batch with
// groups are not parked for values, since a group or a flush behind them would not wait; a value
// that is only shown is fetched later.
Batch::Row BatchRunner::run_now(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                                bool hashed) {
  if (engine_.on_device()) first = run_on_device(run, batch, first, end, nullptr);
  if (pool_ != nullptr && run_parts(run, batch, first, end)) return end;
  return run_on_host(run, batch, first, end, hashed);
}

// Returns `end`, or the row that looks for memory.
Batch::Row BatchRunner::run_on_host(const BatchRun& run, Batch& batch, Batch::Row first,
                                    Batch::Row end, bool hashed) {
  while (first != end) {
    const Batch::Row next = first + std::min(end - first, most_at_once);
    first = executor_.run(batch, run.now_ms, run.writable, first, next, hashed);
    if (first != next) break;
    if (first != end) upkeep_.keep_up(most_at_once);
  }
  return first;
}

// Runs the rows that park_held has not parked, which have hashes: on a device in one round, on the
// host span by span. Returns as run_on_host.
Batch::Row BatchRunner::run_unparked(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                                     const uint8_t* parked) {
  const auto is_parked = [&](Batch::Row row) { return parked[row - first] != 0; };
  Batch::Row row = first;
  if (engine_.on_device() && std::count(parked, parked + (end - first), 0) != 0) {
    row = run_on_device(run, batch, first, end, parked);
  }
  for (; row < end; ++row) {
    if (is_parked(row)) continue;
    const Batch::Row begin = row;
    while (row < end && !is_parked(row)) ++row;
    const Batch::Row done = executor_.run(batch, run.now_ms, run.writable, begin, row, true);
    if (done != row) return done;
  }
  return end;
}

Batch::Row BatchRunner::run_on_device(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                                      const uint8_t* skipped) {
  DeviceExecutor& device = *engine_.device;
  const bool parks = fetchers_ != nullptr && run.reader != nullptr && !run.batch->has_groups();
  const Batch::Row done =
      device.run(participant_, run, batch, first, end, parks ? &run : nullptr, skipped);
  if (fetchers_ == nullptr) finish_values(run);
  return done;
}

Submitted BatchRunner::run_again(BatchRun& run) {
  try {
    set_parking(run);
    if (run.take_whole()) {
      if (!run_groups(run)) return Submitted::under_way;
    } else {
      const bool comes = run.has_coming();
      Batch* again = comes ? nullptr : &run.take_parked();
      if (!comes && engine_.store.backing != nullptr) make_room_to_read(run);
      if (EpochDomain::is_outside(run.slot)) engine_.store.epochs.enter(run.slot);
      if (CommitSink* const sink = engine_.store.sink; sink != nullptr) [[unlikely]]
        begin_commits(run, *sink, true);
      if (comes) executor_.answer_coming(run);
      if (comes && run.has_parked()) again = &run.take_parked();
      if (again == nullptr) return settle(run);
      if (again->walks()) {
        run_walks(run, *again);
      } else if (!again->has_groups()) {
        run_gated(run, *again, 0, again->size());
      } else if (!run_groups(run)) {
        return Submitted::under_way;
      }
    }
  } catch (const std::bad_alloc&) {
    give_up(run);
  }
  return settle(run);
}

void BatchRunner::begin_commits(BatchRun& run, CommitSink& sink, bool again) {
  run.begin_commits(sink, again);
  executor_.set_token(run.token);
}

Submitted BatchRunner::settle(BatchRun& run) {
  // Rows that are parked run again, and take memory then.
  if (!run.has_parked()) engine_.store.budget.dismiss(run.admitted);
  const bool for_sink = run.told() && run.end_commits();
  const bool waits = for_sink || (run.waits() && !broken(Rule::ending));
  if (waits) leave_epoch_to_wait(run, for_sink);
  run.may_move &= !waits_;
  if (waits) {
    if (crew_ != nullptr) run.owner.moved(run, BatchRun::Phase::answered);
    if (!run.wait_for_all()) return Submitted::under_way;
    run.park_lost();
    if (run.has_parked()) return run_again(run);
  }
  engine_.store.budget.dismiss(run.admitted);
  run.hand_back();
  return Submitted::ended;
}

bool BatchRunner::is_over(const Batch& batch) const {
  const HostStore& store = engine_.store;
  return batch.writes() && !store.makes_room() && store.budget.is_over();
}

bool BatchRunner::has_room(const Batch& batch) {
  HostStore& store = engine_.store;
  if (store.budget.limit() == 0 || !batch.writes()) return true;
  return !store.makes_room() || upkeep_.has_room(bytes_to_store(store, nullptr, batch));
}

// Makes room for what the batch writes; a few replaced bytes are not worth counting as passing.
// Where nothing is evicted and the cap was lowered below what is stored, nothing is written, as by
// Redis, whether or not it would find room in what is stored already.
bool BatchRunner::make_room(BatchRun& run) {
  HostStore& store = engine_.store;
  const Batch& batch = *run.batch;
  if (store.budget.limit() == 0 || !batch.writes()) return true;
  if (!store.makes_room()) return !is_over(batch);
  constexpr uint64_t worth_telling = 64 << 10;
  const BatchBytes needed = bytes_to_store(store, &slot_, batch, pool_);
  if (needed.replaced >= worth_telling) {
    run.passing = static_cast<int64_t>(needed.replaced);
    store.budget.passing.fetch_add(run.passing, std::memory_order_relaxed);
  }
  if (needed.at_once + needed.in_place == 0) return true;
  // Values that have arrived in their items take no more memory, and any of them may go for others.
  return upkeep_.make_room(needed, run.now_ms, run.admitted) ||
         (needed.at_once == 0 && store.evicts_any);
}

// For what rows that run again bring from files: changes that are not in the files yet may fill
// memory, and where no room was waited for, these rows would find none.
void BatchRunner::make_room_to_read(BatchRun& run) {
  constexpr uint64_t worth_looking = 1 << 20;
  const uint64_t bytes = run.bytes_to_bring();
  const bool waits = crew_ != nullptr || !run.beside_others;
  if (bytes < worth_looking || run.admitted != 0 || !waits || !run.owner.leave_epochs()) return;
  static_cast<void>(upkeep_.make_room({.at_once = bytes}, run.now_ms, run.admitted));
}

// What lacks memory is left to later steps: no caller has a status for it.
bool BatchRunner::maintain(int64_t now_ms, EpochDomain::Slot& slot) {
  bool more = false;
  try {
    more = upkeep_.step_in(slot, std::exchange(writes_, 0), now_ms);
  } catch (const std::bad_alloc&) {
  }
  if (engine_.device == nullptr || !engine_.device->rounds().tends()) return more;
  const EpochGuard guard(engine_.store.epochs, slot);
  return engine_.device->rounds().tend() || more;
}

}  // namespace isotherm
