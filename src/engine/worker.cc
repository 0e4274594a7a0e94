#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/tile.h"
#include "engine/walk.h"
#include "engine/worker_impl.h"
#include "executor/commit_sink.h"
#include "index/item_table.h"
#include "isotherm/store.h"
#include "items/objects.h"

namespace isotherm {
namespace {

void answer_all(Batch& batch, Status status) {
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    batch.columns().reply[row].status.store(status, std::memory_order_release);
  }
  batch.finish();
}

}  // namespace

bool Worker::Impl::valid(const Batch& batch) const {
  const Batch::Columns& columns = batch.columns();
  const uint32_t databases = engine.store.options.databases;
  const bool walks = batch.walks();
  if (walks && batch.has_groups()) return false;
  if (!walks && batch.last_database() < databases) return true;
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (columns.database[row] >= databases) return false;
    if (walks && columns.op[row] != Op::walk) return false;
  }
  return true;
}

// Null where there is no memory for another run, or no epoch slot.
BatchRun* Worker::Impl::take_run(bool in_this_thread) {
  if (in_this_thread && out == 0) {
    first_out = true;
    ++out;
    return &first;
  }
  if (free.empty()) {
    try {
      free.reserve(spares.size() + 1);  // a run that is in neither list counts as one that is out
      spares.push_back(std::make_unique<Spare>(*this, engine.store));
      free.push_back(&spares.back()->run);
    } catch (const std::exception&) {
      return nullptr;
    }
  }
  BatchRun* const run = free.back();
  free.pop_back();
  ++out;
  return run;
}

// The last run given back is the next to be used; it and a few before it keep their memory.
void Worker::Impl::give_back(BatchRun& run) {
  constexpr size_t most_warm = 4;
  --out;
  if (&run == &first) {
    first_out = false;
    return;
  }
  free.push_back(&run);
  if (free.size() <= most_warm) return;
  if (ValueReader* cold = free[free.size() - 1 - most_warm]->reader) cold->give_memory_back();
}

void Worker::Impl::released(BatchRun& run) {
  if (is_under_way(run)) [[unlikely]]
    wait_for_end(run);
  run.leave();
  if (run.passing != 0) {
    engine.store.budget.passing.fetch_sub(std::exchange(run.passing, 0), std::memory_order_relaxed);
  }
  give_back(run);
}

bool Worker::Impl::leave_epochs() {
  const auto leaves = [&](BatchRun& run) {
    return run.leave_epoch(engine.store.items, engine.store.budget.most_over());
  };
  return leaves(first) && std::ranges::all_of(spares, [&](auto& one) { return leaves(one->run); });
}

// Batches that nobody has cleared hold nothing of the store any more.
void Worker::Impl::let_go_of_batches() {
  const auto let_go = [this](BatchRun& run) {
    run.batch->hold(nullptr);
    released(run);
  };
  if (first_out) let_go(first);
  for (const auto& spare : spares) {
    if (std::find(free.begin(), free.end(), &spare->run) == free.end()) let_go(spare->run);
  }
}

Worker::Started Worker::Impl::hand_to(Executor& executor, Batch& batch, int64_t now_ms) {
  batch.let_go();
  BatchRun* const run = take_run(&executor == &runner);
  if (run == nullptr) return Started::retry;
  run->begin(batch, now_ms, run != &first);
  under_way.push_back(run);
  if (&executor != &runner && goes_quick(*run)) return Started::under_way;
  const Started started = executor.submit(*run);
  if (started == Started::under_way) return started;
  under_way.pop_back();
  if (started == Started::retry) {
    refused = true;
    batch.hold(nullptr);
    give_back(*run);
    return started;
  }
  batch.finish();
  return started;
}

bool Worker::Impl::goes_quick(BatchRun& run) {
  Crew* const crew = waits ? nullptr : engine.crew_if_made();
  if (crew == nullptr || crew->quick() == nullptr || !runner.has_room(*run.batch)) return false;
  if (runner.is_over(*run.batch)) return false;
  quick_path = crew->quick();
  awake.store(true, std::memory_order_relaxed);
  run.quick = true;
  ++quick;
  if (quick_path->take(run)) {
    left_to_finisher = false;
    return true;
  }
  run.quick = false;
  --quick;
  return false;
}

void Worker::Impl::leave_to_finisher() {
  if (!polls()) return;
  left_to_finisher = true;
  looks = 0;
  quick_path->finish_soon();
}

void Worker::Impl::moved(BatchRun& run, BatchRun::Phase phase) {
  const std::lock_guard guard(mutex);
  run.phase = phase;
  if (std::exchange(run.is_news, true)) return;
  news.push_back(&run);
  any_news.store(true, std::memory_order_relaxed);
  if (awake.load(std::memory_order_relaxed)) return;
  if (news.size() == 1 && wake) wake();
  told.notify_one();
}

void Worker::Impl::has_room() {
  const std::lock_guard guard(mutex);
  room = true;
  if (wake) wake();
  told.notify_one();
}

void Worker::Impl::note_end(BatchRun& run) {
  under_way.erase(std::find(under_way.begin(), under_way.end(), &run));
  run.batch->finish();
}

// Takes the news, and goes on with the runs that are resumable in this thread. There may be news of
// a run that has ended in `submit`: its replies were let go just before.
void Worker::Impl::look(const Visit* visit) {
  if (polls() && !any_news.load(std::memory_order_relaxed)) quick_path->step(*this);
  auto now = std::exchange(seen, {});
  {
    const std::lock_guard guard(mutex);
    any_news.store(false, std::memory_order_relaxed);
    if (std::exchange(room, false)) refused = false;
    for (BatchRun* run : news) {
      run->is_news = false;
      now.emplace_back(run, run->phase);
    }
    news.clear();
  }
  for (auto [run, phase] : now) {
    if (std::exchange(run->quick, false)) {
      --quick;
      looks = 0;
    }
    if (!is_under_way(*run)) continue;
    const bool resumes = phase == BatchRun::Phase::resumable;
    if (resumes && runner.run_again(*run) == Submitted::ended) phase = BatchRun::Phase::ended;
    Batch& batch = *run->batch;
    if (phase == BatchRun::Phase::ended) note_end(*run);
    if (visit != nullptr) (*visit)(batch, phase == BatchRun::Phase::ended);
  }
  now.clear();
  seen.swap(now);
}

void Worker::Impl::wait_for_news() {
  leave_to_finisher();
  std::unique_lock lock(mutex);
  awake.store(false, std::memory_order_relaxed);
  told.wait(lock, [&] { return !news.empty() || room; });
}

// If other batches end meanwhile, only their end is noted: `poll` does not show them any more.
void Worker::Impl::wait_for_end(BatchRun& run) {
  while (is_under_way(run)) {
    wait_for_news();
    look(nullptr);
  }
}

Worker::Worker(Engine& engine, bool waits) {
  EngineState& state = *engine.state_;
  if (state.workers.fetch_add(1) >= Store::most_handles) {
    state.workers.fetch_sub(1);
    throw std::runtime_error("too many handles: at most " + std::to_string(Store::most_handles));
  }
  try {
    impl_ = std::make_unique<Impl>(state, waits);
  } catch (...) {
    state.workers.fetch_sub(1);
    throw;
  }
}

Worker::~Worker() {
  EngineState& engine = impl_->engine;
  while (!impl_->under_way.empty()) impl_->wait_for_end(*impl_->under_way.back());
  impl_->let_go_of_batches();
  if (Crew* crew = engine.crew_if_made()) crew->forget(*impl_);
  impl_.reset();
  engine.workers.fetch_sub(1);
}

void Worker::submit(Batch& batch) { submit(batch, impl_->engine.clock.now_ms()); }

void Worker::submit(Batch& batch, WorkerPool& pool, std::span<Worker* const> helpers) {
  std::vector<BatchRunner*> runners{&impl_->runner};
  for (const Worker* helper : helpers) runners.push_back(&helper->impl_->runner);
  struct Helped {
    ~Helped() { runner.get_help(nullptr, {}); }
    BatchRunner& runner;
  };
  const Helped helped{impl_->runner};
  helped.runner.get_help(&pool, std::move(runners));
  submit(batch);
}

void Worker::submit(Batch& batch, int64_t now_ms) {
  Impl& impl = *impl_;
  if (!impl.valid(batch)) return answer_all(batch, Status::invalid);
  // This thread may come to wait for a round that its own small batches are in, and that it would
  // have to lead.
  impl.leave_to_finisher();
  HostExecutor& executor = impl.runner.executor();
  executor.may_read(true);
  const Started started = impl.hand_to(impl.runner, batch, now_ms);
  executor.may_read(false);
  switch (started) {
    case Started::ended:
      return;
    case Started::under_way:
      return impl.wait_for_end(*impl.under_way.back());
    case Started::retry:
      impl.engine.retried.fetch_add(1, std::memory_order_relaxed);
      return answer_all(batch, Status::retry);
  }
}

// A run that is out may have the slot.
bool Worker::Impl::may_look_at_once(uint32_t database) const {
  const HostStore& store = engine.store;
  return out == 0 && database < store.options.databases && engine.device == nullptr &&
         store.row_gate == nullptr;
}

// As rows of a batch are run where nothing gates them (BatchRunner::run_plain): at work, and only
// where the gate is not armed then.
bool Worker::get_at_once(uint32_t database, std::string_view key, std::string& value,
                         uint64_t& version) {
  Impl& impl = *impl_;
  HostStore& store = impl.engine.store;
  if (!impl.may_look_at_once(database)) return false;
  {
    const WorkGuard guard(store.epochs, impl.runner.slot());
    Reply reply;
    if (store.gate.armed()) return false;
    if (!impl.runner.executor().get_at_once(database, key, reply)) return false;
    value.assign(reply.value());
    version = reply.version;
  }
  maintain_behind(1, 0);
  return true;
}

bool Worker::look_at_once(uint32_t database, std::string_view key, uint64_t& version,
                          int64_t& expiry) {
  Impl& impl = *impl_;
  HostStore& store = impl.engine.store;
  if (!impl.may_look_at_once(database) || store.hot != nullptr) return false;
  const WorkGuard guard(store.epochs, impl.runner.slot());
  const LineIndex* const index = store.databases[database].index();
  const uint64_t hash = store.hash(key, store.seed);
  if (index == nullptr || store.gate.is_held(hash, database)) return false;
  const Item* const item = resolve(store.items, index->find<TilePlain>(hash).word, key).item;
  const CommitSink* const sink = store.sink;
  if (item == nullptr || (sink != nullptr && !sink->is_safe(database, hash))) return false;
  version = Objects::version_of(*item);
  expiry = item->expiry();
  return true;
}

Worker::Started Worker::start(Batch& batch) { return start(batch, impl_->engine.clock.now_ms()); }

Worker::Started Worker::start(Batch& batch, int64_t now_ms) {
  Impl& impl = *impl_;
  if (!impl.valid(batch)) {
    answer_all(batch, Status::invalid);
    return Started::ended;
  }
  const Started started = impl.start(batch, now_ms);
  if (started == Started::retry) [[unlikely]]
    impl.engine.retried.fetch_add(1, std::memory_order_relaxed);
  return started;
}

Worker::Started Worker::Impl::start(Batch& batch, int64_t now_ms) {
  if (out >= most_under_way) return Started::retry;
  Crew* const crew = engine.crew();
  const CommitSink* const sink = engine.store.sink;
  // What those under way hold cannot be evicted.
  if (batch.writes() && !under_way.empty() &&
      ((sink != nullptr && sink->full()) || (crew == nullptr && !runner.has_room(batch)))) {
    return Started::retry;
  }
  return crew != nullptr ? hand_to(*crew, batch, now_ms) : hand_to(runner, batch, now_ms);
}

uint32_t Worker::poll(const Visit& visit) {
  if (!impl_->under_way.empty() || impl_->refused) impl_->look(&visit);
  return static_cast<uint32_t>(impl_->under_way.size());
}

// A look takes 0.1 to 0.2 µs, and a round on a device about 10 µs.
bool Worker::linger() {
  constexpr uint32_t looks_at_once = 100;
  constexpr uint32_t most_looks = 800;
  Impl& impl = *impl_;
  for (uint32_t i = 0; i < looks_at_once && impl.polls(); ++i) {
    if (impl.any_news.load(std::memory_order_relaxed)) return true;
    impl.quick_path->step(impl);
    if (++impl.looks == most_looks) impl.leave_to_finisher();
    __builtin_ia32_pause();
  }
  return impl.any_news.load(std::memory_order_relaxed);
}

bool Worker::rest() {
  Impl& impl = *impl_;
  if (impl.under_way.empty()) {
    impl.runner.rest();
    return true;
  }
  if (impl.polls()) return false;
  const std::lock_guard guard(impl.mutex);
  if (!impl.news.empty()) return false;
  impl.awake.store(false, std::memory_order_relaxed);
  return true;
}

void Worker::wait() {
  if (!impl_->under_way.empty() || impl_->refused) impl_->wait_for_news();
}

void Worker::wait_for(const Batch& batch) {
  for (BatchRun* const run : impl_->under_way) {
    if (run->batch == &batch) return impl_->wait_for_end(*run);
  }
}

bool Worker::busy() const { return impl_->out != 0; }
bool Worker::runs_all() const { return impl_->engine.crew_if_made() == nullptr; }
bool Worker::refused() const { return impl_->refused; }

void Worker::wake_by(std::function<void()> wake) {
  const std::lock_guard guard(impl_->mutex);
  impl_->wake = std::move(wake);
}

void Worker::uncount_reads(const Batch& batch, Batch::Row first, Batch::Row end) {
  impl_->runner.executor().uncount_reads(batch, first, end);
}

void Worker::count_reads(uint64_t hits, uint64_t misses) {
  impl_->runner.executor().count_reads(hits, misses);
}

uint64_t Worker::copied_bytes() const {
  return impl_->engine.store.copied.load(std::memory_order_relaxed);
}

bool Worker::maintain() { return maintain(impl_->engine.clock.now_ms()); }

bool Worker::maintain(int64_t now_ms) {
  if (!impl_->waits && impl_->engine.crew() != nullptr) return false;
  if (impl_->out != 0 && impl_->engine.on_device()) return false;
  const bool counts = impl_->out == 0 && impl_->engine.device == nullptr;
  if (counts && impl_->engine.store.wants_indexes_back(++impl_->steps)) give_indexes_back(now_ms);
  if (!impl_->first_out) return impl_->runner.maintain(now_ms);
  // Batches whose replies wait may overlap for ever; background work is done beside them all the
  // same, in the slot of a run that is not out.
  BatchRun* const spare = impl_->take_run(false);
  if (spare == nullptr) return false;
  const bool more = impl_->runner.maintain(now_ms, spare->slot);
  impl_->give_back(*spare);
  return more;
}

void Worker::maintain_behind(uint64_t rows, uint64_t bytes) {
  constexpr uint64_t share = 64;
  constexpr uint64_t bytes_of_a_row = 1024;
  impl_->rows_behind += rows + bytes / bytes_of_a_row;
  if (impl_->rows_behind < share) return;
  impl_->rows_behind = 0;
  maintain();
}

void Worker::nudge() {
  if (Crew* const crew = impl_->engine.crew_if_made()) crew->nudge();
}

std::optional<uint64_t> Worker::count(uint32_t database) {
  EngineState& engine = impl_->engine;
  if (engine.device != nullptr) engine.device->rounds().wait_while_losing();
  return begin_count(engine, database)();
}

void Worker::flush_all() { flush(0, impl_->engine.store.options.databases); }

}  // namespace isotherm
