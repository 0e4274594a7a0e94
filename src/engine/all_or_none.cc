// The part of BatchRunner that looks for the room of all puts of a group, before the first of them
// runs.
//
// Only a trial says whether there is any: near the cap, room is what chunks of the puts' classes
// have free, too, and where values can go to a device it is more. What the trial takes is free
// again when it ends, most of it in this thread's cache, and the puts take it from there. What
// others take meanwhile the puts take beyond the cap, where writes of stores that evict may run as
// well (items/memory_budget.h): they must not stop in their middle.
#include "engine/all_or_none.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/batch_runner.h"
#include "engine/engine_state.h"
#include "executor/batch_bytes.h"

namespace isotherm {
namespace {

class Trial {
 public:
  // Throws std::bad_alloc.
  Trial(ItemStore::Cache& cache, bool over_cap, Batch::Row items)
      : cache_(cache), over_cap_(over_cap) {
    taken_.reserve(items);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    for (const Location location : taken_) cache_.free_unpublished(location);
  }

  bool take(uint64_t bytes) {
    const Location location = cache_.allocate(bytes, over_cap_);
    if (location == location::none) return false;
    taken_.push_back(location);
    return true;
  }

 private:
  ItemStore::Cache& cache_;
  const bool over_cap_;
  std::vector<Location> taken_;
};

// Marks the guard; the engine does what there is to do.
void begin_puts(Batch& /*batch*/, Batch::Row /*row*/, void* /*context*/) {}

uint64_t bytes_of(const Batch::Columns& columns, Batch::Row row) {
  return Item::bare_bytes(columns.key[row].size(), columns.value[row].size());
}

}  // namespace

void all_or_none(Batch& batch, Batch::Row puts) {
  batch.guard(begin_puts, reinterpret_cast<void*>(uintptr_t{puts}), batch.size());
}

Batch::Span puts_behind(const Batch& batch, const Batch::Guard& guard) {
  if (guard.check != begin_puts) return {guard.row, guard.row};
  const auto puts = static_cast<Batch::Row>(reinterpret_cast<uintptr_t>(guard.context));
  return {guard.row, guard.row + std::min(puts, batch.size() - guard.row)};
}

void let_run_over_cap(Batch& batch, Batch::Span puts) {
  for (Batch::Row row = puts.first; row < puts.end; ++row)
    batch.columns().options[row] |= option::over_cap;
}

// Whether the cap has room for all puts of the batch, which has such groups, in any case.
bool BatchRunner::has_plenty_for(const Batch& batch) const {
  constexpr uint64_t chunks = 2 << 20;  // that may be begun for the puts
  HostStore& store = engine_.store;
  const auto is_one = [](const Batch::Guard& guard) { return guard.check == begin_puts; };
  if (std::none_of(batch.guards().begin(), batch.guards().end(), is_one)) return false;
  return store.budget.fits(2 * bytes_to_store(store, nullptr, batch).at_once + chunks);
}

void BatchRunner::find_room_for_all(const BatchRun& run, Batch::Span puts) {
  Batch& batch = *run.batch;
  if (engine_.store.budget.limit() == 0) return;
  if (!run.writable || !has_room_for(batch.columns(), puts))
    return batch.cancel(puts.first, puts.end);
  let_run_over_cap(batch, puts);
}

bool BatchRunner::has_room_for(const Batch::Columns& columns, Batch::Span puts) {
  const HostStore& store = engine_.store;
  const Database& database = store.databases[columns.database[puts.first]];
  const bool begins = database.index() == nullptr && !engine_.on_device();
  if (begins && !store.may_begin_index(false)) return false;
  const uint64_t largest = store.largest_item();
  Trial trial(executor_.cache(), executor_.runs_over(false), puts.end - puts.first);
  for (Batch::Row row = puts.first; row < puts.end; ++row) {
    const uint64_t bytes = bytes_of(columns, row);
    if (bytes > largest || !trial.take(bytes)) return false;
  }
  return true;
}

}  // namespace isotherm
