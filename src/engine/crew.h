// Crew: threads that run batches where the index is on a device, for owners that must not wait for
// the device, such as network threads.
//
//   submit ─▶ queue, bounded ─▶ a thread of the crew: room, gate, rounds with the others ─▶ the
//   owner
//                  ▲                    │ values wait          is told: answered, ended
//                  └──── resume ◀───────┴─▶ threads that fetch them
//                  (executor/values/value_fetchers.h)
// A round (executor/device/rounds.h) takes the batches that its threads have; what arrives
// meanwhile is the next one. Between batches the threads do the background work: as long as there
// is some, or when they are nudged. If there are several threads, at least one of them is kept free
// for batches.
//
// While the device has nothing else to do, small batches take another way (engine/quick_path.h).
//
// Order. Batches under way are concurrent: an owner that needs one before the other waits for it.
// Bounds. The queue has a bound on its batches and one on their rows. A full queue answers retry;
// when it is half empty again, it tells those that it refused. Batches that are resumed always find
// a place.
// Failure. When the device is lost, the threads run the batches of the queue on the host.
//
// Threads. `submit`, `resume`, `nudge` and `forget`: any. It ends when nothing is under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/quick_path.h"
#include "executor/executor.h"
#include "executor/run/batch_run.h"
#include "executor/values/value_fetchers.h"

namespace isotherm {

class BatchRunner;
class EngineState;

class Crew final : public Executor {
 public:
  // As the options of the store say. Throws std::system_error without a thread, and as a runner.
  explicit Crew(EngineState& engine);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  Submitted submit(BatchRun& run) override;
  void resume(BatchRun& run) override;
  // One step of background work, soon.
  void nudge();
  // The owner ends, and is not told any more that there is room.
  void forget(BatchRun::Owner& owner);

  // Null where rounds wait for more rows.
  QuickPath* quick() const { return quick_.get(); }

  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void make_threads();
  void end_threads();
  void work(BatchRunner& runner);
  bool take(BatchRun*& run, bool& again, bool maintains);
  void tell_room();
  bool maintain(BatchRunner& runner);

  EngineState& engine_;
  const uint32_t count_;  // of threads
  const uint32_t most_runs_;
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint32_t> maintaining_{0};

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  RunQueue waiting_;
  RunQueue resumed_;
  uint32_t runs_ = 0;  // in waiting_
  uint64_t rows_ = 0;  // theirs
  std::vector<BatchRun::Owner*> refused_owners_;
  bool nudged_ = false;
  bool stopping_ = false;

  std::unique_ptr<ValueFetchers> fetchers_;
  std::unique_ptr<QuickPath> quick_;
  std::vector<std::unique_ptr<BatchRunner>> runners_;
  std::vector<std::thread> threads_;
};

}  // namespace isotherm
