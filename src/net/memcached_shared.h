// MemcachedShared: what all memcached connections of a server share, a member of ServerState.
#pragma once

#include "net/memcached_flush.h"
#include "net/memcached_stats.h"

namespace isotherm::net {

struct MemcachedShared {
  FlushTime flush;
  MemcachedReset reset;
};

}  // namespace isotherm::net
