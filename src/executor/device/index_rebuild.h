// Makes indexes of the host from the live items: what happens when the device that held the index
// fails.
//
// An index has segments for all entries that the device had from the start. Threads of its own
// share the items by pages, the large ones apart; each inserts a few items at a time, their home
// lines on the way, and pays its part of what growth is left (index/growth_share.h). Nobody else
// reads or writes the indexes meanwhile. The sink is told of items that are given up
// (executor/commit_sink.h), with a version that the caller gives.
//
// Threads. One calls, within an epoch, which holds back the reuse of what the rebuilding retires.
// Limits. As many threads as the machine runs at once, at most 32, and fewer for few items. An item
// that finds no memory is given up, as one that was evicted.
#pragma once

#include "executor/host_store.h"

namespace isotherm {

// `version`: of what is given up, larger than all that were given.
void rebuild_index(HostStore& store, uint64_t version);

}  // namespace isotherm
