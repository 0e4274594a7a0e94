// BatchRunner: what a thread needs to run batches to their ends: executors, a place in the rounds
// of a device, and the background work (executor/upkeep/host_upkeep.h).
//
//   room for what is written → the gate, for groups → rows up to each guard, the guard, … → what
//   rows wait for
// This executor runs a batch in the calling thread. Each worker has one, and so has each thread of
// the crew (engine/crew.h). A runner of the crew differs in three things: it holds no replies while
// it looks for room, other threads fetch values for it, and rows that have waited are run again by
// the crew.
// Short of memory. A row that finds none, though its batch was admitted for what it seemed to need,
// waits, with all rows behind it, until what earlier ones have replaced can be used again
// (engine/find_memory.cc).
//
// Without memory. Whatever a batch lacks memory for on its way, it ends: rows that have not run by
// then are answered out_of_memory, and all that it holds is given back.
//
// Threads. Belongs to one thread; `resume` may be called by any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/group_phases.h"
#include "executor/device/device_executor.h"
#include "executor/executor.h"
#include "executor/host/host_executor.h"
#include "executor/run/batch_run.h"
#include "executor/upkeep/host_upkeep.h"
#include "executor/values/value_fetchers.h"

namespace isotherm {

class EngineState;
class WorkerPool;
class WriteDelay;

class BatchRunner final : public Executor {
 public:
  // For a thread of a crew: the crew, and the threads that fetch values; else null. `waits`: the
  // thread may wait for keys that others have; else its batches do. Throws std::bad_alloc, and
  // std::runtime_error where no epoch slot is left.
  explicit BatchRunner(EngineState& engine, bool waits, Executor* crew = nullptr,
                       ValueFetchers* fetchers = nullptr);
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  // In this thread: `ended`, or `under_way` where rows wait.
  Submitted submit(BatchRun& run) override;
  void resume(BatchRun& run) override { run.owner.moved(run, BatchRun::Phase::resumable); }
  // The rows that were parked, or the batch that waited as a whole.
  Submitted run_again(BatchRun& run);

  // Whether what the batch writes finds room, as far as can be said without waiting.
  bool has_room(const Batch& batch);
  // Whether its writes are refused, since nothing is evicted and more is stored than the cap
  // allows.
  bool is_over(const Batch& batch) const;
  void rest() { upkeep_.rest(); }

  // Who runs the parts of batches from now on, the runner itself first, by the threads of a pool;
  // null: it runs them alone.
  void get_help(WorkerPool* pool, std::vector<BatchRunner*> runners) {
    pool_ = pool;
    runners_ = std::move(runners);
  }

  // A bounded step of background work, in a slot that no batch is in; true while more waits.
  bool maintain(int64_t now_ms, EpochDomain::Slot& slot);
  bool maintain(int64_t now_ms) { return maintain(now_ms, slot_); }
  // For a run; null where no values lie on devices, or with a device that fails: the next batch to
  // run then gives that up. Throws std::bad_alloc.
  static std::unique_ptr<ValueReader> make_reader(HostStore& store);

  EpochDomain::Slot& slot() { return slot_; }
  ValueReader* reader() { return reader_.get(); }
  HostExecutor& executor() { return executor_; }

 private:
  void check_reader(const ValueReader* reader);
  bool make_room(BatchRun& run);
  void make_room_to_read(BatchRun& run);
  void find_memory(BatchRun& run, const Batch& batch, Batch::Row row);
  void find_room_for_all(const BatchRun& run, Batch::Span puts);
  bool has_room_for(const Batch::Columns& columns, Batch::Span puts);
  bool has_plenty_for(const Batch& batch) const;
  void leave_epoch_to_wait(BatchRun& run, bool for_sink);
  void prepare_device(BatchRun& run);
  void run_rows(BatchRun& run);
  void give_up(BatchRun& run);
  void run_walks(BatchRun& run, Batch& batch);
  void set_parking(BatchRun& run);
  void look_ahead(BatchRun& run);
  bool is_missing(const Batch::Columns& columns, Batch::Row row) const;
  bool may_start(const Batch::Columns& columns, Batch::Row first, Batch::Row end,
                 std::unordered_set<uint64_t>& others) const;
  Awaited* coming(const Batch::Columns& columns, Batch::Row row, int64_t now_ms) const;
  void run_plain(BatchRun& run);
  bool run_groups(BatchRun& run);
  bool take_keys(BatchRun& run);
  bool pass_row_gate(BatchRun& run, const Batch& batch);
  bool wait_whole(BatchRun& run);
  void give_keys_back(BatchRun& run);
  void run_early(BatchRun& run);
  bool find_early(const Batch& batch);
  void run_all(BatchRun& run);
  void run_to(BatchRun& run, Batch::Row& done, const Batch::Guard& guard);
  void run_phases(BatchRun& run, Batch::Row first, Batch::Row end,
                  std::span<const Batch::Guard> guards);
  void call(BatchRun& run, const Batch::Guard& guard);
  bool leave_out(const BatchRun& run, const Batch& batch, Batch::Row first, Batch::Row end);
  void run_gated(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end);
  bool park_held(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end, bool any);
  void park(BatchRun& run, Batch& batch, Batch::Row row, Awaited* what, Batch::Row first);
  Awaited* awaited(const Batch::Columns& columns, Batch::Row row) const;
  bool delays_writes(const Batch& batch) const;
  // Of a long batch; the index grows between.
  static constexpr Batch::Row most_at_once = 1 << 15;
  Batch::Row run_now(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end, bool hashed);
  Batch::Row run_on_host(const BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                         bool hashed);
  void hash_keys(Batch& batch);
  std::vector<Batch::Span> parts_of(const Batch& batch, Batch::Row first, Batch::Row end) const;
  bool run_parts(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end);
  void run_part(BatchRun& run, Batch& batch, Batch::Span rows, uint64_t token,
                const KeyGate::Holder& holder);
  Batch::Row run_unparked(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                          const uint8_t* parked);
  Batch::Row run_on_device(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end,
                           const uint8_t* skipped);
  void finish_values(BatchRun& run);
  void begin_commits(BatchRun& run, CommitSink& sink, bool again);
  Submitted settle(BatchRun& run);
  void flush(const BatchRun& run, Batch::Row row);

  EngineState& engine_;
  const bool waits_;
  Executor* const crew_;
  ValueFetchers* const fetchers_;
  const TakenSlot taken_;
  EpochDomain::Slot& slot_;
  const GateHolder gate_holder_;
  KeyGate::Holder* holder_;  // the runner's, or that of the run whose groups it runs
  HostExecutor executor_;
  DeviceExecutor::Participant participant_;  // of rounds, where there is a device
  std::unique_ptr<ValueReader> reader_;
  HostUpkeep upkeep_;
  std::vector<uint8_t> parked_;  // of the rows that are to run now
  GroupPhases phases_;           // while its rows run by phases
  std::vector<Awaited*> ahead_;  // what rows of a view wait for
  WriteDelay* delay_ = nullptr;  // of the rows that run now, where writes are put off
  WorkerPool* pool_ = nullptr;   // of the runners that help
  std::vector<BatchRunner*> runners_;
  const Batch* stopped_ = nullptr;  // that has looked for memory last, at this row
  Batch::Row stopped_at_ = 0;
  bool has_plenty_ = false;  // of memory, for all puts of the batch
  uint32_t vain_stops_ = 0;  // of the batch, for which no memory was found
  uint64_t writes_ = 0;      // rows that may write, since the last step of upkeep
};

}  // namespace isotherm
