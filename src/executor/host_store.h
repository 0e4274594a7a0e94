// HostStore: what all host executors of one store share: memory, items, databases.
//
// Members are declared in the order in which they depend on each other. So at the end the databases
// go first, then the items, then the pages that both lie in.
//
// Threads. Any. The cap, the policy and the longest value may change while batches run; each row
// uses the value that it reads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/macros.h"
#include "executor/database.h"
#include "executor/key_gate.h"
#include "index/segment.h"
#include "isotherm/options.h"
#include "items/epoch.h"
#include "items/item_store.h"
#include "items/memory_budget.h"
#include "items/pages.h"

namespace isotherm {

class Backing;
class CommitSink;
class DemotionHook;
class DeviceValues;
class HotSide;
class RowGate;

struct HostStore {
  // Another hash than the usual one is for tests, which make keys collide.
  using Hash = uint64_t (*)(std::string_view key, uint64_t seed);

  HostStore(const Options& its_options, uint64_t hash_seed, Hash its_hash = hash_bytes)
      : options(its_options),
        seed(hash_seed),
        hash(its_hash),
        max_value_bytes(options.max_value_bytes),
        budget(options.maxmemory),
        items(pages, budget, epochs),
        databases(options.databases) {
    set_policy(options.maxmemory_policy);
    pages.fault_ahead(budget);
  }

  // With a backing nothing is lost by eviction, so any item may go.
  void set_policy(EvictionPolicy its_policy) {
    using enum EvictionPolicy;
    if (backing != nullptr && its_policy != allkeys_random) its_policy = allkeys_lru;
    policy = its_policy;
    touches = its_policy == allkeys_lru || its_policy == volatile_lru || options.gpu_values != 0;
    evicts = its_policy != noeviction;
    evicts_any = evicts_any_key(its_policy);
  }

  // Whether writes find room by eviction, or by moving values to devices.
  bool makes_room() const { return (evicts || values != nullptr) && budget.limit() != 0; }
  // The largest item that a row may store: one that does not fit even alone is refused by itself,
  // and nothing is evicted for it. Behind evicted items an index shrinks, unless its size is fixed,
  // so one that is large now, as after the cap was lowered, leaves most of the cap in the end.
  uint64_t largest_item() const {
    if (!makes_room()) return ~uint64_t{0};
    const uint64_t cap = budget.limit();
    const bool shrinks = evicts && options.index == IndexChoice::line;
    return std::max(budget.beside_indexes(), shrinks ? cap - cap / 4 : 0);
  }

  // The index of a database of a store whose indexes have a fixed size, made if there is none; null
  // when memory is out.
  CacheIndex* make_cache(Database& database);
  // The indexes of databases of so many keys, of whatever kind, as far as there is memory; see
  // Engine::expect_keys.
  void make_indexes(const std::map<uint32_t, uint64_t>& keys);

  // Takes the index of a database away, by who has all of its keys; the version of the flush.
  uint64_t flush_index(uint32_t number);

  // The moment of the first of so many requests to indexes that go by time; never 0.
  uint64_t take_time(uint64_t requests) {
    return requests_.fetch_add(requests, std::memory_order_relaxed) + 1;
  }

  // Whether a database that has no index may begin one.
  static constexpr uint64_t least_index = segment_bytes + sizeof(Segment);
  ISOTHERM_INLINE bool may_begin_index(bool over_cap) const {
    return over_cap || makes_room() ? budget.fits_over(least_index) : budget.fits(least_index);
  }

  // At the cap: whether databases without keys have indexes, which Batch::flush_empty gives back.
  // `step`: of upkeep, so that few look at all databases.
  bool wants_indexes_back(uint32_t step) const;
  // With the mutex of flushed indexes: lets those without entries go; whether the first of the
  // others may be taken apart.
  bool next_flushed();

  // Of all databases.
  uint64_t entries() const {
    uint64_t entries = 0;
    for (const Database& database : databases) entries += database.count();
    return entries;
  }

  const Options options;  // as the store was opened
  const uint64_t seed;    // of the hash
  const Hash hash;
  std::atomic<uint64_t> max_value_bytes;
  std::atomic<EvictionPolicy> policy;
  // What the policy means:
  std::atomic<bool> touches;     // reads count as uses, for eviction or for values on devices
  std::atomic<bool> evicts;      // the policy frees memory at the cap
  std::atomic<bool> evicts_any;  // also by items without an expiry
  MemoryBudget budget;
  Pages pages;
  EpochDomain epochs{EpochDomain::max_slots};
  ItemStore items;
  std::vector<Database> databases;
  // Whether long values that were changed may change where they lie from then on
  // (items/changing_item.h): memory alone has the store, and the host all of it. Set before there
  // is an executor.
  bool changes_in_place = false;
  // Bytes of long values that were stored as changed copies of others.
  std::atomic<uint64_t> copied{0};
  // Where values of items may lie, too; null: nowhere. Belongs to the executor of the device.
  DeviceValues* values = nullptr;

  // Where hot keys are found first; null: the router is off. Set before there is an executor.
  HotSide* hot = nullptr;

  // Which keys a group has.
  KeyGate gate{epochs};
  // Says which rows wait before they run; null: none does. Set while no batch runs.
  RowGate* row_gate = nullptr;
  // Who is told of changes, and who is asked before eviction drops an item
  // (executor/commit_sink.h); null: nobody. The first is set while no worker runs, or none has rows
  // at work (Batch::stand_still).
  std::atomic<CommitSink*> sink = nullptr;
  DemotionHook* demotion = nullptr;
  // Has the items that memory lacks (executor/backing.h); null: memory has all. It is set before
  // there is an executor, and is told of changes as the sink is.
  Backing* backing = nullptr;

  // Held by the one worker that makes room, while the others that find no room wait.
  std::mutex making_room;
  // The epoch of the reader that batches have last waited for in vain, for memory that it holds.
  std::atomic<uint64_t> vain_epoch{0};

  // Indexes that a flush took away and that are taken apart bit by bit, once nobody uses them.
  struct Flushed {
    DetachedIndex index;
    uint64_t epoch;  // of the moment
    uint32_t database;
  };
  std::mutex flushed_mutex;
  std::list<Flushed> flushed;
  std::atomic<bool> any_flushed{false};  // of these; for a look without the mutex
  // How many still look at flushed indexes, none of which is taken apart meanwhile; with the mutex.
  uint32_t flushed_keepers = 0;

 private:
  void make_caches(const std::map<uint32_t, uint64_t>& keys);

  std::mutex making_cache_;  // of two that are made at once the second sees what the first takes
  alignas(64) std::atomic<uint64_t> requests_{0};
};

}  // namespace isotherm
