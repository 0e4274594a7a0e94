// BatchBytes: how much memory the rows of a batch may need.
//
// An estimate from above, before the batch runs, for eviction to make room. A row that cannot fit
// even alone counts nothing, since it will be refused, and all rows together no more than the
// largest item there can be: more cannot be had by evicting.
//
// Some requests store a changed copy of what their key has now. As long as all large items could be
// copied within the cap, that is not worth a look at the index.
//
// Threads. The slot's, outside of epochs; enters one where it looks at items.
#pragma once

#include <cstdint>

#include "device/host_store.h"
#include "isotherm/batch.h"

namespace isotherm {

// For a store with a cap whose policy evicts.
uint64_t bytes_to_store(HostStore& store, EpochDomain::Slot& slot, const Batch& batch);

}  // namespace isotherm
