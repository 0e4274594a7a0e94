// Executor: runs batches, and says how far it got.
//
//   submit ──▶ ended       every row is answered: at no cost beyond that, in the calling thread
//          ──▶ under_way   the run's owner will be told (executor/run/batch_run.h)
//          ──▶ retry       a queue is full; nothing ran, and the owner is told when there is room
//
// There are two executors: one runs a batch in the calling thread (engine/batch_runner.h), the
// other hands it to threads that may wait for a device (engine/crew.h). Both have their rows
// answered by the host executor or in rounds (executor/host/host_executor.h,
// executor/device/device_executor.h).
//
// Threads. `submit` is the owner's; `resume` any.
#pragma once

#include <cstdint>

namespace isotherm {

class BatchRun;

enum class Submitted : uint8_t { ended, under_way, retry };

class Executor {
 public:
  virtual Submitted submit(BatchRun& run) = 0;
  // What parked rows of a run under way waited for is there: they run again.
  virtual void resume(BatchRun& run) = 0;

 protected:
  ~Executor() = default;
};

}  // namespace isotherm
