#include "engine/batch_runner.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "engine/engine_state.h"
#include "executor/batch_bytes.h"
#include "gpu/device_error.h"

namespace isotherm {
namespace {

// Ends when `wait` returns, so it is told under the lock.
class SleepingWaiter final : public Awaited::Waiter {
 public:
  void there() override {
    const std::lock_guard guard(mutex_);
    there_ = true;
    told_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return there_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  bool there_ = false;
};

}  // namespace

BatchRunner::BatchRunner(EngineState& engine, Executor* crew, ValueFetchers* fetchers)
    : engine_(engine),
      crew_(crew),
      fetchers_(fetchers),
      taken_(engine.store.epochs),
      slot_(*taken_.slot),
      executor_(engine.store),
      member_(executor_),
      reader_(make_reader(engine.store)),
      upkeep_(executor_, slot_, engine.device.get(), &member_, reader_.get()) {
  {
    const EpochGuard guard(engine.store.epochs, slot_);
    check_reader(reader_.get());
  }
  const std::lock_guard guard(engine_.executors_mutex);
  engine_.executors.push_back(&executor_);
}

BatchRunner::~BatchRunner() {
  const std::lock_guard guard(engine_.executors_mutex);
  std::erase(engine_.executors, &executor_);
  add_counters(engine_.ended, executor_.counters());
}

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
  Batch& batch = *run.batch;
  run.executor = crew_ != nullptr ? crew_ : this;
  // Whoever holds replies and waits for room could wait for itself. The crew holds none.
  run.writable = (crew_ == nullptr && run.beside_others()) || make_room(run);
  if (batch.exclusive()) {
    if (engine_.store.row_gate != nullptr) [[unlikely]]
      wait_for_gated(batch);
    lock_exclusive(run.slot);
    run.entered();
  } else {
    run.enter();
  }
  if (engine_.device) {
    check_reader(run.reader);
    if (run.reader != nullptr) run.reader->fetch_by(fetchers_);
  }
  if (engine_.store.sink != nullptr) [[unlikely]]
    begin_commits(run, false);
  run_all(run);
  if (batch.exclusive()) unlock_exclusive();
  if (batch.writes()) writes_ += batch.size();
  return settle(run);
}

// Rows up to each guard, and the rest.
void BatchRunner::run_all(BatchRun& run) {
  Batch& batch = *run.batch;
  Batch::Row done = 0;
  for (const Batch::Guard& guard : batch.guards()) {
    run_rows(run, batch, done, guard.row);
    guard.check(batch, guard.row, guard.context);
    done = guard.row;
  }
  run_rows(run, batch, done, batch.size());
  executor_.counters().batches.add(1);
}

void BatchRunner::run_rows(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end) {
  if (engine_.store.row_gate != nullptr && !run.batch->exclusive()) [[unlikely]]
    return run_gated(run, batch, first, end);
  run_now(run, batch, first, end);
}

// Between the rows that wait all others run.
void BatchRunner::run_gated(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end) {
  Batch::Columns& columns = batch.columns();
  executor_.hash_keys(columns, first, end);
  for (Batch::Row row = first; row < end; ++row) {
    Awaited* const what =
        run.is_parked(columns, row) ? nullptr : engine_.store.row_gate->awaited(columns, row);
    if (what == nullptr && !run.is_parked(columns, row)) continue;
    run_now(run, batch, first, row);
    run.park(batch, row, what);
    first = row + 1;
  }
  run_now(run, batch, first, end);
}

// What a device that is lost on the way leaves is run on the host. A guard looks at values, too, so
// they are fetched before it.
void BatchRunner::run_now(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end) {
  if (engine_.on_device()) {
    DeviceExecutor& device = *engine_.device;
    const bool fetches = fetchers_ == nullptr || run.batch->exclusive();
    BatchRun* const parking = fetches || run.reader == nullptr ? nullptr : &run;
    first = device.run(member_, run.reader, batch, run.now_ms, run.writable, first, end, parking,
                       run.token);
    if (fetches && run.reader != nullptr) device.finish(*run.reader);
  }
  if (first != end) executor_.run(batch, run.now_ms, run.writable, first, end);
}

// Rows of a batch that runs alone wait before it does.
void BatchRunner::wait_for_gated(Batch& batch) {
  executor_.hash_keys(batch.columns(), 0, batch.size());
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    while (Awaited* const what = engine_.store.row_gate->awaited(batch.columns(), row)) {
      SleepingWaiter waiter;
      what->begin(waiter);
      waiter.wait();
    }
  }
}

Submitted BatchRunner::run_again(BatchRun& run) {
  Batch& again = run.take_parked();
  if (engine_.store.sink != nullptr) begin_commits(run, true);
  run_rows(run, again, 0, again.size());
  return settle(run);
}

void BatchRunner::begin_commits(BatchRun& run, bool again) {
  run.begin_commits(*engine_.store.sink, again);
  executor_.set_token(run.token);
}

Submitted BatchRunner::settle(BatchRun& run) {
  bool waits = run.waits();
  if (engine_.store.sink != nullptr) [[unlikely]]
    waits |= run.end_commits(*engine_.store.sink);
  if (waits) {
    if (crew_ != nullptr) run.owner.moved(run, BatchRun::Phase::answered);
    if (!run.wait_for_all()) return Submitted::under_way;
    if (run.has_parked()) return run_again(run);
  }
  run.hand_back();
  return Submitted::ended;
}

// The gate, which opens when all others have left: none of them is to wait for more work meanwhile.
void BatchRunner::lock_exclusive(EpochDomain::Slot& slot) {
  if (engine_.device) engine_.device->hurry();
  engine_.store.epochs.lock_exclusive(slot);
}

void BatchRunner::unlock_exclusive() {
  engine_.store.epochs.unlock_exclusive();
  if (engine_.device) engine_.device->calm();
}

// Few bytes are not worth the account.
bool BatchRunner::make_room(BatchRun& run) {
  HostStore& store = engine_.store;
  const Batch& batch = *run.batch;
  if (store.budget.limit() == 0 || !batch.writes()) return true;
  constexpr uint64_t worth_telling = 64 << 10;
  const BatchBytes needed = bytes_to_store(store, slot_, batch);
  if (needed.replaced >= worth_telling) {
    run.passing = static_cast<int64_t>(needed.replaced);
    store.budget.passing.fetch_add(run.passing, std::memory_order_relaxed);
  }
  return needed.at_once == 0 || upkeep_.make_room(needed, run.now_ms);
}

bool BatchRunner::maintain(int64_t now_ms) {
  return upkeep_.step(std::exchange(writes_, 0), now_ms);
}

// The version of the flush.
uint64_t BatchRunner::flush_index(uint32_t number) {
  HostStore& store = engine_.store;
  Database& database = store.databases.at(number);
  if (std::unique_ptr<LineIndex> index = database.detach(); index != nullptr) {
    const std::lock_guard guard(store.flushed_mutex);
    store.flushed.push_back(std::move(index));
    store.any_flushed.store(true, std::memory_order_relaxed);
  }
  return database.flush_version();
}

void BatchRunner::flush(uint32_t first, uint32_t end) {
  lock_exclusive(slot_);
  for (uint32_t database = first; database < end; ++database) {
    uint64_t version = 0;
    const bool flushed = engine_.on_device() &&
                         engine_.device->flush(member_, database, engine_.clock.now_ms(), version);
    if (!flushed) version = flush_index(database);
    if (engine_.store.sink != nullptr) engine_.store.sink->flushed(database, version);
  }
  unlock_exclusive();
  engine_.store.epochs.leave(slot_);
}

}  // namespace isotherm
