// QuickPath: small batches of network threads, in rounds that these threads lead in steps
// (executor/device/step_round.h), so that no other thread is woken for them.
//
//   take ─▶ list ─▶ step: table, keys, lookup begins
//                          └▶ step: rows answered, changes begin ─▶ owners are told
// Batches that come while a round is under way wait in the list and go together into the next one.
// Whoever has a batch here calls `step` again and again, and leads whatever is due: the round may
// have batches of others, too. A step that ends a round begins the next one only if a batch of its
// own thread waits for it. Otherwise a thread whose batch was just answered would lead rounds of
// others instead of writing its replies. No step waits: neither for the device, nor for the table,
// nor for another thread's step; and no step does background work. The path has a thread of its
// own, the finisher, which may wait. A thread that has looked in vain for a while calls
// `finish_soon`, leaves the rest to the finisher, and sleeps. The finisher also takes the steps
// that would last long: growth on the device, a device that fails, and the first round of all.
//
// What is taken: batches of few rows, without groups, whose writes find room and whose keys no
// group has, as long as rounds are greedy and nobody but this path leads one. The crew runs all
// other batches, and all of them where a sink may withhold replies. It also runs again the rows
// that wait for values and those that a lost device has left unanswered. Until its rows are
// answered, a batch's slot is at work, so groups wait for it (executor/key_gate.h).
//
// Order, replies. As with a crew: batches under way are concurrent, and each has its epoch.
// Memory. Items come from a cache of the path's own, whose retired ones `tidy` frees.
//
// Threads. `take`: the run's owner; `finish_soon`, `step` and `tidy`: any. The finisher ends with
// the path, when nothing is under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "executor/device/batch_work.h"
#include "executor/device/step_round.h"
#include "executor/executor.h"
#include "executor/host/host_executor.h"
#include "executor/run/batch_run.h"
#include "executor/values/value_fetchers.h"

namespace isotherm {

class Crew;
class EngineState;

class QuickPath {
 public:
  static constexpr uint32_t most_rows = StepRound::most_rows;

  // `fetchers`: of values; null where none lie on devices. Throws std::system_error without a
  // thread, std::runtime_error without an epoch slot.
  QuickPath(EngineState& engine, Crew& crew, ValueFetchers* fetchers);
  ~QuickPath();
  QuickPath(const QuickPath&) = delete;
  QuickPath& operator=(const QuickPath&) = delete;

  // False: the batch is not for it, or not now; nothing was done. There is room for its writes.
  bool take(BatchRun& run);
  // Does what can be done without waiting, in a thread of that owner.
  void step(const BatchRun::Owner& who);
  // Has the finisher end what was taken, even if nobody calls `step` any more.
  void finish_soon();
  // Some background work: frees memory; true while more waits.
  bool tidy();

  uint64_t batches() const { return executor_.counters().batches.get(); }

 private:
  bool suits(const BatchRun& run) const;
  bool is_held(Batch& batch) const;
  bool is_next(const BatchRun::Owner& who);
  bool advance(bool may_wait);
  bool begin(bool may_wait);
  void gather();
  void settle_all();
  static void settle(BatchRun& run);
  void close();
  void fail();
  void finish();

  EngineState& engine_;
  Crew& crew_;
  ValueFetchers* const fetchers_;

  std::mutex list_mutex_;  // of what follows
  RunQueue list_;
  std::atomic<uint32_t> listed_{0};

  std::mutex step_mutex_;  // of what follows: whoever leads
  const TakenSlot slot_;   // entered while a round is open
  HostExecutor executor_;
  StepRound round_;
  std::vector<BatchRun*> runs_;  // in the round, not told yet
  std::vector<BatchWork> works_;
  uint64_t writes_ = 0;  // rows, since the crew was nudged
  bool failed_ = false;
  bool warm_ = false;              // there was a round
  std::atomic<bool> open_{false};  // a round is

  std::mutex finisher_mutex_;  // of what follows
  std::condition_variable wanted_changed_;
  bool wanted_ = false;
  bool stopping_ = false;
  std::atomic<bool> finishing_{false};  // or about to
  std::thread finisher_;
};

}  // namespace isotherm
