#include "executor/host_store.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace isotherm {

// With a share of what the indexes of other databases have left, they take less than the cap
// together, however many there are. One that was flushed and is not taken apart yet does not count.
CacheIndex* HostStore::make_cache(Database& database) {
  uint64_t taken = 0;
  for (const Database& one : databases) {
    if (&one != &database) taken += one.cache_use().bytes;
  }
  const uint64_t left = options.maxmemory - std::min(taken, options.maxmemory);
  return database.make_cache([&](uint64_t first_version) -> CacheIndex* {
    try {
      return make_cache_index(options.index, left, options.index_item_bytes, budget, first_version)
          .release();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  });
}

uint64_t HostStore::flush_index(uint32_t number) {
  Database& database = databases.at(number);
  if (DetachedIndex index = database.detach()) {
    const std::lock_guard guard(flushed_mutex);
    flushed.push_back({std::move(index), epochs.current(), number});
    any_flushed.store(true, std::memory_order_relaxed);
  }
  return database.flush_version();
}

}  // namespace isotherm
