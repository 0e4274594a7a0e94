// The part of BatchRunner that looks for memory in the middle of a batch.
//
// How much rows need is an estimate (executor/batch_bytes.h): a short APPEND makes a new item of
// any length, a function makes its object as large as it likes, and many that arrive together
// replace far more than the cap leaves room for. What they have replaced is not free before their
// batch leaves its epoch. So the batch stops at the row that finds no memory, leaves, with all
// others of its thread, makes room for as many of its next rows as may run over the cap at once,
// and goes on in a new epoch.
//
// A row that finds none even then may run over the cap, or is refused. Rows behind it stop again,
// since others may have been faster; but where several were let down, the rest of the batch does
// not stop any more, so that it does not wait for nothing again and again.
#include <algorithm>
#include <new>

#include "engine/batch_runner.h"
#include "engine/engine_state.h"
#include "executor/batch_bytes.h"

namespace isotherm {

void BatchRunner::find_memory(BatchRun& run, const Batch& batch, Batch::Row row) {
  HostStore& store = engine_.store;
  const bool in_vain = stopped_ == &batch && stopped_at_ == row;
  const bool works = EpochDomain::is_at_work(run.slot);
  stopped_ = &batch;
  stopped_at_ = row;
  if (in_vain) {
    constexpr uint32_t most_vain = 16;
    const bool goes_on = run.admitted != 0 || ++vain_stops_ <= most_vain;
    return executor_.set_stops_from(goes_on ? row + 1 : HostExecutor::never);
  }
  if (!run.owner.leave_epochs()) return executor_.set_stops_from(HostExecutor::never);
  const HostExecutor::Gated gated = executor_.gated();
  executor_.set_gated(nullptr, nullptr);
  store.budget.dismiss(run.admitted);
  store.budget.passing.fetch_sub(run.passing, std::memory_order_relaxed);
  run.passing = 0;
  // Others may run over the cap beside it.
  const uint64_t share = store.budget.most_over() / 4;
  const BatchBytes rows = bytes_from(store, slot_, batch, row, share);
  BatchBytes needed{.at_once = std::max(rows.at_once, share), .alone = rows.alone};
  // Objects cannot use what the chunks of items have free. They take a part of what is asked for
  // with each call, so what others were admitted for is mostly taken, and not waited for.
  const bool is_object = is_for_object(batch.columns().op[row]);
  if (is_object) {
    const ItemMemory memory = store.items.memory();
    const uint64_t part = std::max(rows.at_once, std::min(share, store.budget.limit() / 16));
    needed = {.lasting = memory.free + memory.stock + part, .at_once = part, .in_place = part};
  }
  const bool found = upkeep_.make_room(needed, run.now_ms, run.admitted);
  // Where nothing is evicted, objects beyond the cap would stay there.
  if (is_object && !found) run.writable = false;
  executor_.set_gated(gated.slot, gated.holder);
  works ? store.epochs.enter_to_work(run.slot) : store.epochs.enter(run.slot);
}

// A batch that waits for what is in files holds back little that others need, unless memory is
// short. One that waits for its own changes to be in them may wait as long as the disk takes, while
// others replace and evict what is then held back for it.
void BatchRunner::leave_epoch_to_wait(BatchRun& run, bool for_sink) {
  constexpr uint64_t most_copied = 64 << 10;
  HostStore& store = engine_.store;
  const uint64_t cap = store.budget.limit();
  if (cap == 0) return;
  const bool for_files = store.backing != nullptr && engine_.device == nullptr;
  if (!for_sink && (!for_files || store.budget.fits(cap / 16))) return;
  try {
    run.leave_epoch(store.items, most_copied);
  } catch (const std::bad_alloc&) {  // it waits within its epoch
  }
}

}  // namespace isotherm
