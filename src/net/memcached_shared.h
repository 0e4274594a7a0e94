// MemcachedShared: what all memcached connections of a server share, a member of ServerState.
#pragma once

#include <cstdint>

#include "net/memcached_flush.h"
#include "net/memcached_stats.h"

namespace isotherm::net {

// The database that its clients use.
inline constexpr uint32_t memcached_database = 0;

struct MemcachedShared {
  FlushTime flush;
  MemcachedReset reset;
};

}  // namespace isotherm::net
