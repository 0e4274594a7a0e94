// BatchBytes: how much memory the rows of a batch may need.
//
// An estimate from above, before the batch runs, for eviction to make room. A row that cannot fit
// even alone counts nothing, since it will be refused, and all rows together no more than the
// largest item there can be: more cannot be had by evicting.
//
// What a row replaces goes only when the batch has ended, so for a while both are there; that may
// be above the cap a little (items/memory_budget.h), so nothing else has to be evicted for it. And
// some rows store a changed copy of what their key has now. As long as all large items could be
// copied within the cap, neither is worth a look at the index.
//
// Threads. The slot's, outside of epochs; enters one where it looks at items. Without a slot it
// looks at none, and what depends on them counts as more than there is.
#pragma once

#include <cstdint>

#include "executor/host_store.h"
#include "isotherm/batch.h"

namespace isotherm {

struct BatchBytes {
  uint64_t lasting = 0;   // more than before, when the batch has ended
  uint64_t at_once = 0;   // while it runs
  uint64_t replaced = 0;  // of large values, which go when it has ended
  uint64_t in_place = 0;  // of values that are counted already, where they arrived
};

// For a store with a cap.
BatchBytes bytes_to_store(HostStore& store, EpochDomain::Slot* slot, const Batch& batch);

}  // namespace isotherm
