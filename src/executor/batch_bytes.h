// BatchBytes: how much memory the rows of a batch may need.
//
// It is an estimate, made before the batch runs, so that eviction makes room for that much. Where
// it is too low, as for many copies of one value, the batch makes room on its way
// (engine/find_memory.cc). A row that is too large even for an empty store counts nothing, since it
// will be refused. All rows together count no more than the largest item there can be, since
// eviction cannot give more.
//
// The value that a row replaces is freed only when the batch has ended, so for a while both values
// take memory. The budget allows this to exceed the cap a little (items/memory_budget.h), so
// nothing else is evicted for it. Some rows store a changed copy of the value that their key has
// now, unless they are likely to change it where it lies. As long as copies of all large items
// would fit within the cap, the bound for either kind of row is known without a look at the index.
//
// Threads. The thread that owns the epoch slot, outside of epochs; it enters one where it looks at
// items. Without a slot it looks at no items: where the sum depends on them, the answer is the
// whole cap.
#pragma once

#include <cstdint>

#include "executor/host_store.h"
#include "isotherm/batch.h"

namespace isotherm {

class WorkerPool;

// Whether what a request takes is an object's, beside all chunks.
inline bool is_for_object(Op op) { return op == Op::call || op == Op::put_object; }

struct BatchBytes {
  uint64_t lasting = 0;   // that are taken when the batch has ended, beyond those before it
  uint64_t at_once = 0;   // that are taken while it runs
  uint64_t replaced = 0;  // of large values that are freed when it has ended
  uint64_t alone = 0;     // of those at once: of large values and objects, beside all chunks
  uint64_t in_place = 0;  // of values that have arrived in their items, and are counted already
};

// For a store with a cap. `pool`: whose threads share the rows; may be null.
BatchBytes bytes_to_store(HostStore& store, EpochDomain::Slot* slot, const Batch& batch,
                          WorkerPool* pool = nullptr);
// Of the rows from `first` on that take no more than `most` while they run, but of one at least.
BatchBytes bytes_from(HostStore& store, EpochDomain::Slot& slot, const Batch& batch,
                      Batch::Row first, uint64_t most);

}  // namespace isotherm
