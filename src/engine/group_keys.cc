// The part of BatchRunner that takes the keys of groups, and runs other rows of a batch that waits
// for them as a whole.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <unordered_set>
#include <utility>

#include "engine/batch_runner.h"
#include "engine/engine_state.h"

namespace isotherm {
namespace {

bool of_all(const Batch::Guard& guard) { return guard.looks_from == Batch::everywhere; }

// It is gone when `wait` returns, so `there` notifies under the lock.
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

// Takes the keys of the groups. False: the batch waits, for these keys or for what rows of its
// groups have to wait for first, and will be resumed.
bool BatchRunner::take_keys(BatchRun& run) {
  KeyGate& gate = engine_.store.gate;
  const Batch& batch = run.with_groups();
  if (run.holder == nullptr && !pass_row_gate(run, batch)) return false;
  if (engine_.device) engine_.device->hurry();
  if (run.holder == nullptr) {
    if (gate.take_now(*holder_, batch, pool_)) return true;
    if (!waits_) run.holder = gate.join_if_possible();
    if (run.holder == nullptr) {
      gate.take(*holder_, batch);
      return true;
    }
    run.begin_whole();
    if (!gate.take_or_tell(*run.holder, batch, run)) {
      if (engine_.device) engine_.device->calm();
      if (!wait_whole(run)) return false;
      if (engine_.device) engine_.device->hurry();
    }
    run.take_whole();
  }
  holder_ = run.holder;
  gate.drain(*holder_);
  return true;
}

// Rows of groups wait before they take their keys.
bool BatchRunner::pass_row_gate(BatchRun& run, const Batch& batch) {
  if (engine_.store.row_gate == nullptr) [[likely]]
    return true;
  for (const Batch::Span& group : batch.groups()) {
    for (Batch::Row row = group.first; row < group.end; ++row) {
      while (Awaited* const what = engine_.store.row_gate->awaited(batch.columns(), row)) {
        if (waits_) {
          SleepingWaiter waiter;
          what->begin(waiter);
          waiter.wait();
          continue;
        }
        run.begin_whole();
        what->begin(run);
        if (!wait_whole(run)) return false;
        run.take_whole();
      }
    }
  }
  return true;
}

void BatchRunner::give_keys_back(BatchRun& run) {
  KeyGate& gate = engine_.store.gate;
  gate.give_back(*holder_);
  if (run.holder == nullptr) return;
  holder_ = &gate_holder_.holder;
  gate.leave(*std::exchange(run.holder, nullptr));
}

// Whether it has what it waits for already.
bool BatchRunner::wait_whole(BatchRun& run) {
  if (&run.with_groups() == run.batch) run_early(run);
  if (crew_ != nullptr) run.owner.moved(run, BatchRun::Phase::answered);
  return run.end_whole();
}

// Runs rows of a batch whose groups wait: those whose keys neither others nor its own groups have.
// Rows of views do not run, since a view needs all of its rows; and none runs where the batch
// flushes or has a guard that looks at all rows, since those behind it must come after it.
void BatchRunner::run_early(BatchRun& run) {
  Batch& batch = *run.batch;
  if (!run.early.empty() || std::any_of(batch.guards().begin(), batch.guards().end(), of_all))
    return;
  engine_.store.epochs.enter(run.slot);
  try {
    if (engine_.device) prepare_device(run);
    engine_.store.gate.begin(*holder_, batch.columns(), 0, batch.size());
    if (find_early(batch)) {
      run.early.resize(batch.size());
      std::transform(parked_.begin(), parked_.end(), run.early.begin(),
                     [](uint8_t parked) { return parked == 0 ? 1 : 0; });
      executor_.set_gated(&run.slot, holder_);
      run_unparked(run, batch, 0, batch.size(), parked_.data());
    }
  } catch (const std::bad_alloc&) {  // others will resume it, with the rest
    run.refuse_early();
  }
  executor_.set_gated(nullptr, nullptr);
  KeyGate::end_if_begun(*holder_);
  // A batch of which nothing ran holds no memory back while it waits.
  if (run.early.empty()) EpochDomain::leave(run.slot);
}

// Marks those that cannot run in parked_, and says whether any can. A row whose key an earlier row
// waits for cannot run either. One look is enough: no view is among the rows, and whoever takes
// keys meanwhile waits for the rows that were found.
bool BatchRunner::find_early(const Batch& batch) {
  const Batch::Columns& columns = batch.columns();
  std::unordered_set<uint64_t> keys;
  parked_.assign(batch.size(), 0);
  for (const Batch::Span& span : batch.groups()) {
    for (Batch::Row row = span.first; row < span.end; ++row)
      keys.insert(BatchRun::key_of(columns, row));
  }
  bool any = false;
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (keys.contains(BatchRun::key_of(columns, row)) || awaited(columns, row) != nullptr) {
      keys.insert(BatchRun::key_of(columns, row));
      parked_[row] = 1;
    } else {
      any = true;
    }
  }
  return any;
}

}  // namespace isotherm
