// `stats items` and `stats slabs`: the size classes of items, which memcached calls slabs, by
// number from 1 on; the last are the items that are larger than every class.
//
// Lines for what does not exist here are left out (docs/differences.md).
//
// Threads. Any loop.
#pragma once

#include "net/output.h"

namespace isotherm::net {

struct ServerState;

// Both without the END.
void write_items(const ServerState& server, Output& output);
void write_slabs(const ServerState& server, Output& output);
// For `stats reset`.
void reset_slab_counters(ServerState& server);

}  // namespace isotherm::net
