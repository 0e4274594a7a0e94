// MemcachedShared: what all memcached connections of a server share, a member of ServerState.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "net/memcached_flush.h"

namespace isotherm::net {

// The database that its clients use.
inline constexpr uint32_t memcached_database = 0;

// The sums of the loops' counters when a client last asked for `stats reset`.
class MemcachedReset {
 public:
  static constexpr size_t counters = 26;

  std::array<std::atomic<uint64_t>, counters> sums{};
};

struct MemcachedShared {
  FlushTime flush;
  MemcachedReset reset;
};

}  // namespace isotherm::net
