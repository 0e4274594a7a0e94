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
  {
    const std::lock_guard guard(flushed_mutex);
    // First, since it may find no memory, and nobody may free what was detached.
    std::list<Flushed> place(1);
    if (DetachedIndex index = database.detach()) {
      place.front() = {std::move(index), epochs.current(), number};
      flushed.splice(flushed.end(), place);
      any_flushed.store(true, std::memory_order_relaxed);
    }
  }
  return database.flush_version();
}

// At once where the indexes leave no room for items. The only index there is would be made again by
// the next write.
bool HostStore::wants_indexes_back(uint32_t step) const {
  constexpr uint32_t seldom = 16;
  if (budget.fits(least_index)) return false;
  if (budget.beside_indexes() >= least_index && step % seldom != 0) return false;
  const auto count = [&](auto&& counts) {
    return std::count_if(databases.begin(), databases.end(), counts);
  };
  return count([](const Database& one) { return one.index() != nullptr; }) > 1 &&
         count([](const Database& one) { return one.is_bare(); }) > 0;
}

// Somebody may still look into one.
bool HostStore::next_flushed() {
  while (!flushed.empty() && epochs.advance() > flushed.front().epoch) {
    const LineIndex* const lines = flushed.front().index.lines.get();
    if (lines == nullptr || lines->count() != 0) return true;
    flushed.pop_front();
  }
  any_flushed.store(!flushed.empty(), std::memory_order_relaxed);
  return false;
}

}  // namespace isotherm
