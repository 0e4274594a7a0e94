// MemcachedShared: what all memcached connections of a server share, a member of ServerState.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "items/size_classes.h"
#include "net/memcached_flush.h"
#include "net/memcached_prefixes.h"

namespace isotherm::net {

// The database that its clients use.
inline constexpr uint32_t memcached_database = 0;

// The sums of the counters when a client last asked for `stats reset`.
class MemcachedReset {
 public:
  static constexpr size_t counters = 27;
  static constexpr size_t slabs = size_classes::count + 2;  // as MemcachedCounters has
  static constexpr size_t slab_counters = 11;

  std::array<std::atomic<uint64_t>, counters> sums{};
  std::array<std::array<std::atomic<uint64_t>, slab_counters>, slabs> slab_sums{};
};

struct MemcachedShared {
  FlushTime flush;
  MemcachedReset reset;
  MemcachedPrefixes prefixes;
  std::atomic<bool> tracks_sizes{false};  // `stats sizes` shows them
};

}  // namespace isotherm::net
