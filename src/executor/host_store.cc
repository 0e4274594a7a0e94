#include "executor/host_store.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace isotherm {

// The first two take their share of what the others leave, and later ones a part of it, so that
// many databases leave memory for items, too. One whose index was taken away gets no smaller part
// than it had. An index that was flushed and is not taken apart yet does not count.
CacheIndex* HostStore::make_cache(Database& database) {
  const std::lock_guard guard(making_cache_);
  uint64_t taken = 0;
  uint64_t others = 0;
  for (const Database& one : databases) {
    const uint64_t bytes = &one == &database ? 0 : one.cache_use().bytes;
    taken += bytes;
    others += bytes != 0;
  }
  const uint64_t left = options.maxmemory - std::min(taken, options.maxmemory);
  return database.make_cache([&](uint64_t first_version, uint64_t& parts) -> CacheIndex* {
    parts = std::clamp<uint64_t>(others, 1, parts);
    try {
      return make_cache_index(options.index, left / parts, options.index_item_bytes, budget,
                              first_version)
          .release();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  });
}

// Those that grow take a twelfth of the cap at most, for part of the keys may be over.
void HostStore::make_indexes(const std::map<uint32_t, uint64_t>& keys) {
  constexpr uint64_t worth_it = 1 << 15;  // with fewer keys they grow fast enough by themselves
  constexpr uint64_t bytes_of_cap = 256;  // for an entry of an expected index, which takes some 20
  if (options.index != IndexChoice::line) return make_caches(keys);
  const uint64_t cap = budget.limit();
  for (const auto& [database, count] : keys) {
    const uint64_t expected = cap == 0 ? count : std::min(count, cap / bytes_of_cap);
    if (database >= databases.size() || expected < worth_it) continue;
    databases[database].make_index(pages, budget, epochs, expected);
  }
}

void HostStore::make_caches(const std::map<uint32_t, uint64_t>& keys) {
  std::vector<std::pair<uint64_t, uint32_t>> most_first;
  for (const auto& [database, count] : keys) {
    if (database < databases.size()) most_first.emplace_back(count, database);
  }
  std::sort(most_first.rbegin(), most_first.rend());
  for (const auto& [count, database] : most_first) make_cache(databases[database]);
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
