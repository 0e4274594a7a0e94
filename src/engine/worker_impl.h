// Worker::Impl: what a worker knows of the batches that it has begun: their runs, which of them are
// under way, and what other threads have told it of them.
//
// Runs. The first is in the runner's own slot, and is taken for what runs in this thread while no
// other run is out; those beside it are spare ones, made as they are needed and kept. A run is out
// from its begin until the batch is cleared.
//
// Threads. The worker's alone, but for what the mutex guards.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/batch_runner.h"
#include "engine/crew.h"
#include "engine/engine.h"
#include "engine/engine_state.h"

namespace isotherm {

struct Worker::Impl final : BatchRun::Owner {
  // A run beside the first, with an epoch slot of its own.
  struct Spare {
    Spare(Impl& impl, HostStore& store) : taken(store.epochs), run(impl, *taken.slot) {
      run.own_reader = BatchRunner::make_reader(store);
      run.reader = run.own_reader.get();
      run.sender = &impl.sender;
    }
    TakenSlot taken;
    BatchRun run;
  };

  Impl(EngineState& state, bool its_waits)
      : engine(state), waits(its_waits), runner(state, its_waits), first(*this, runner.slot()) {
    first.reader = runner.reader();
    first.sender = &sender;
    news.reserve(most_under_way);
    seen.reserve(most_under_way);
    under_way.reserve(most_under_way);
  }

  bool valid(const Batch& batch) const;
  // Whether this thread may look at an item of the database beside all batches.
  bool may_look_at_once(uint32_t database) const;
  BatchRun* take_run(bool in_this_thread);
  void give_back(BatchRun& run);
  void let_go_of_batches();
  bool goes_quick(BatchRun& run);
  bool polls() const { return quick != 0 && !left_to_finisher; }
  void leave_to_finisher();
  Started hand_to(Executor& executor, Batch& batch, int64_t now_ms);
  Started start(Batch& batch, int64_t now_ms);
  void look(const Visit* visit);
  void note_end(BatchRun& run);
  bool is_under_way(const BatchRun& run) const {
    return std::find(under_way.begin(), under_way.end(), &run) != under_way.end();
  }
  void wait_for_end(BatchRun& run);
  void wait_for_news();

  void moved(BatchRun& run, BatchRun::Phase phase) override;
  void has_room() override;
  void released(BatchRun& run) override;
  bool leave_epochs() override;

  EngineState& engine;
  const bool waits;
  RoundSender sender;
  BatchRunner runner;
  // For batches that run in this thread while no other run is out; all others get spare ones.
  BatchRun first;
  std::vector<std::unique_ptr<Spare>> spares;
  std::vector<BatchRun*> free;
  uint32_t out = 0;  // runs that were begun and are not released
  bool first_out = false;
  bool refused = false;      // by the crew, whose queue was full
  uint64_t rows_behind = 0;  // that no step of upkeep was done for
  uint32_t steps = 0;        // of upkeep
  std::vector<BatchRun*> under_way;
  // How many runs are on the quick path without news so far, and who leads their rounds.
  uint32_t quick = 0;
  QuickPath* quick_path = nullptr;
  uint32_t looks = 0;  // in vain
  bool left_to_finisher = false;

  std::atomic<bool> awake{false};  // it looks at the news before it sleeps
  std::atomic<bool> any_news{false};
  std::mutex mutex;  // of what follows, and of the phases of runs
  std::condition_variable told;
  std::vector<BatchRun*> news;
  bool room = false;
  std::function<void()> wake;

  std::vector<std::pair<BatchRun*, BatchRun::Phase>> seen;  // of `look`
};

}  // namespace isotherm
