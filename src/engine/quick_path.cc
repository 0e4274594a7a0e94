#include "engine/quick_path.h"

#include <algorithm>

#include "base/lasting_thread.h"
#include "engine/crew.h"
#include "engine/engine_state.h"

namespace isotherm {
namespace {

// Rows that write, until the crew does some background work for them.
constexpr uint64_t writes_a_nudge = 64;

}  // namespace

QuickPath::QuickPath(EngineState& engine, Crew& crew, ValueFetchers* fetchers)
    : engine_(engine),
      crew_(crew),
      fetchers_(fetchers),
      slot_(engine.store.epochs),
      executor_(engine.store),
      round_(engine.device->rounds(), executor_) {
  runs_.reserve(StepRound::most_works);
  works_.reserve(StepRound::most_works);
  finisher_ = lasting_thread([this] { finish(); });
  engine_.add_executor(executor_);
}

QuickPath::~QuickPath() {
  {
    const std::lock_guard guard(finisher_mutex_);
    stopping_ = true;
  }
  wanted_changed_.notify_one();
  finisher_.join();
  engine_.remove_executor(executor_);
}

bool QuickPath::suits(const BatchRun& run) const {
  const Batch& batch = *run.batch;
  const HostStore& store = engine_.store;
  if (batch.empty() || batch.size() > most_rows) return false;
  if (batch.has_groups() || batch.walks()) return false;
  if (store.row_gate != nullptr || store.sink != nullptr) return false;
  // A run without a reader for its values means that the device has failed, and giving it up takes
  // long.
  return run.reader != nullptr || store.values == nullptr || store.values->lost();
}

bool QuickPath::take(BatchRun& run) {
  if (!suits(run) || finishing_.load(std::memory_order_acquire)) return false;
  // A round of the crew may take long, and its end would be waited for here.
  const bool alone = !open_.load(std::memory_order_relaxed) && listed_.load() == 0;
  if (alone && engine_.device->rounds().running()) return false;
  engine_.store.epochs.enter_to_work(run.slot);
  if (engine_.store.gate.armed() && is_held(*run.batch)) {
    EpochDomain::leave(run.slot);
    return false;
  }
  run.executor = &crew_;
  run.writable = true;
  if (run.reader != nullptr) run.reader->fetch_by(fetchers_);
  {
    const std::lock_guard guard(list_mutex_);
    list_.push(run);
    listed_.fetch_add(1);
  }
  step(run.owner);
  return true;
}

bool QuickPath::is_held(Batch& batch) const {
  const Batch::Columns& columns = batch.columns();
  executor_.hash_keys(batch.columns(), 0, batch.size());
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (engine_.store.gate.is_held(columns.hash[row], columns.database[row])) return true;
  }
  return false;
}

void QuickPath::step(const BatchRun::Owner& who) {
  const std::unique_lock lock(step_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || failed_) return;
  if (!warm_ && listed_.load() != 0) return finish_soon();
  // A thread that has led a round has replies to write, so the next round is led by one that waits
  // for it.
  while (advance(false) && (round_.open() || is_next(who))) {
  }
}

bool QuickPath::is_next(const BatchRun::Owner& who) {
  const std::lock_guard guard(list_mutex_);
  return list_.first != nullptr && &list_.first->owner == &who;
}

// One step of the round. True: the next one may follow at once.
bool QuickPath::advance(bool may_wait) {
  if (!round_.open() && !begin(may_wait)) return false;
  switch (failed_ ? StepRound::Came::failed : round_.go_on(may_wait)) {
    case StepRound::Came::nowhere:
      return false;
    case StepRound::Came::answered:
      settle_all();
      return true;
    case StepRound::Came::ended:
      close();
      return true;
    case StepRound::Came::failed:
      if (may_wait) fail();
      failed_ = !may_wait;
      [[fallthrough]];
    case StepRound::Came::to_work:
      if (!may_wait) finish_soon();
      return may_wait;
  }
  return false;
}

bool QuickPath::begin(bool may_wait) {
  if (listed_.load() == 0 || !round_.take_table(may_wait)) return false;
  gather();
  return true;
}

// Takes the first of the list into the round.
void QuickPath::gather() {
  const std::lock_guard guard(list_mutex_);
  uint32_t rows = 0;
  while (list_.first != nullptr && runs_.size() < StepRound::most_works) {
    BatchRun& run = *list_.first;
    const Batch& batch = *run.batch;
    rows += batch.size();
    if (rows > most_rows) break;
    list_.pop();
    listed_.fetch_sub(1);
    runs_.push_back(&run);
    works_.emplace_back(run, batch, 0, batch.size(), run.reader != nullptr ? &run : nullptr);
    round_.add(works_.back());
    if (batch.writes()) writes_ += batch.size();
  }
  engine_.store.epochs.enter(*slot_.slot);
  open_.store(true, std::memory_order_relaxed);
  warm_ = true;
}

void QuickPath::settle_all() {
  executor_.counters().batches.add(runs_.size());
  for (BatchRun* run : runs_) settle(*run);
  runs_.clear();
}

// The owner may use the run again as soon as it was told.
void QuickPath::settle(BatchRun& run) {
  EpochDomain::rest(run.slot);
  if (!run.waits()) return run.owner.moved(run, BatchRun::Phase::ended);
  run.owner.moved(run, BatchRun::Phase::answered);
  if (run.wait_for_all()) run.all_there();
}

// Behind the end of a round.
void QuickPath::close() {
  works_.clear();
  open_.store(false, std::memory_order_relaxed);
  engine_.store.epochs.leave(*slot_.slot);
  if (writes_ < writes_a_nudge && !engine_.device->rounds().tends()) return;
  writes_ = 0;
  crew_.nudge();
}

// The device is lost: the crew runs on the host what was not answered.
void QuickPath::fail() {
  round_.give_up();
  for (BatchRun* run : runs_) {
    Batch& batch = *run->batch;
    // Rows that run again must have their hashes, and some of these may lack them.
    executor_.hash_keys(batch.columns(), 0, batch.size());
    for (Batch::Row row = 0; row < batch.size(); ++row) run->park(batch, row, nullptr);
    EpochDomain::rest(run->slot);
    crew_.resume(*run);
  }
  runs_.clear();
  close();
}

void QuickPath::finish_soon() {
  {
    const std::lock_guard guard(finisher_mutex_);
    wanted_ = true;
    finishing_.store(true, std::memory_order_release);
  }
  wanted_changed_.notify_one();
}

// The finisher's thread. `take` refuses batches while it works, so its work comes to an end.
void QuickPath::finish() {
  std::unique_lock lock(finisher_mutex_);
  for (;;) {
    wanted_changed_.wait(lock, [&] { return wanted_ || stopping_; });
    if (!wanted_) return;
    wanted_ = false;
    lock.unlock();
    {
      const std::lock_guard guard(step_mutex_);
      while (advance(true)) {
      }
    }
    lock.lock();
    if (!wanted_) finishing_.store(false, std::memory_order_release);
  }
}

bool QuickPath::tidy() {
  const std::lock_guard guard(step_mutex_);
  return executor_.cache().reclaim();
}

}  // namespace isotherm
