#include "device/host_upkeep.h"

#include <algorithm>
#include <utility>

#include "base/tile.h"
#include "index/item_table.h"

namespace isotherm {
namespace {

// Bounds of one step.
constexpr uint32_t databases_per_step = 64;
constexpr uint32_t items_per_sweep = 256;
constexpr uint32_t sweeps_per_step = 8;
// Sweeps that a batch waits for when it finds no room; more would be a pause that clients see, so
// the cap is then overshot by this batch, as far as the budget lets it.
constexpr uint32_t sweeps_per_batch = 256;
constexpr uint32_t samples = 16;  // of which volatile-ttl evicts the one that expires first
constexpr uint32_t lines_per_drain = 64;

// Room kept free ahead of need: 2% of the cap, within these.
constexpr uint64_t percent_left_free = 8;  // a little more than compaction tolerates at the cap
constexpr int64_t least_reserve = 128 << 10;
constexpr int64_t most_reserve = 32 << 20;

int64_t reserve_of(uint64_t limit) {
  return std::clamp(static_cast<int64_t>(limit / 50), least_reserve, most_reserve);
}

}  // namespace

int64_t HostUpkeep::room() const {
  const ItemMemory memory = store_.items.memory();
  const auto room =
      static_cast<int64_t>(store_.budget.limit() + memory.free + memory.stock + memory.retired) -
      static_cast<int64_t>(store_.budget.claimed());
  // Over the cap the free items are not where they are needed. Those that compaction leaves alone
  // are no room then, so eviction goes on until compaction has something to give back.
  return over_cap() ? room - static_cast<int64_t>(memory.chunks * percent_left_free / 100) : room;
}

bool HostUpkeep::over_cap() const { return store_.budget.limit() != 0 && !store_.budget.fits(0); }

bool HostUpkeep::evictable() const {
  const auto buffers = store_.budget.buffers.load(std::memory_order_relaxed);
  if (buffers >= static_cast<int64_t>(store_.budget.limit())) return false;
  return std::any_of(
      store_.databases.begin(), store_.databases.end(), [&](const Database& database) {
        return store_.evicts_any ? database.used()
                                 : database.expires.load(std::memory_order_relaxed) > 0;
      });
}

bool HostUpkeep::make_room(uint64_t bytes, int64_t now_ms) {
  if (!store_.makes_room()) return true;
  const auto wanted = static_cast<int64_t>(bytes);
  if (room() >= wanted) return true;
  if (!evictable()) return false;
  evict_to(wanted + reserve_of(store_.budget.limit()), sweeps_per_batch, now_ms);
  return true;
}

bool HostUpkeep::step(uint64_t writes, int64_t now_ms) {
  bool more = grow(writes + std::exchange(erased_, 0));
  more |= drain();
  more |= expire(now_ms);
  if (store_.makes_room()) {
    const int64_t reserve = reserve_of(store_.budget.limit());
    if (room() < reserve && evictable()) more |= !evict_to(reserve, sweeps_per_step, now_ms);
  }
  for (uint32_t sweeps = over_cap() ? sweeps_per_step : 1; sweeps > 0; --sweeps) compact(now_ms);
  more |= executor_.cache().reclaim();
  more |= store_.items.trim();
  more |= store_.pages.trim_ahead();
  return more;
}

bool HostUpkeep::grow(uint64_t changes) {
  growth_.add(changes);
  bool more = false;
  const auto databases = static_cast<uint32_t>(store_.databases.size());
  const EpochGuard guard(store_.epochs, slot_);
  for (uint32_t i = 0; i < std::min(databases, databases_per_step); ++i) {
    LineIndex* index = store_.databases[next_database_].index();
    if (index != nullptr) more |= growth_.pay(*index);
    next_database_ = (next_database_ + 1) % databases;
  }
  return more;
}

bool HostUpkeep::drain() {
  std::unique_lock guard(store_.flushed_mutex, std::try_to_lock);
  if (!guard.owns_lock() || store_.flushed.empty()) return false;
  LineIndex& index = *store_.flushed.front();
  // A sweep of another thread may look at these items, so they retire like any other.
  const bool more = index.drain(lines_per_drain, [&](uint64_t root) {
    for_each_member(store_.items, root,
                    [&](Location location) { executor_.cache().retire(location); });
    retire_root(executor_.cache(), root);
  });
  if (!more) store_.flushed.pop_front();
  return true;
}

bool HostUpkeep::expire(int64_t now_ms) {
  const EpochGuard guard(store_.epochs, slot_);
  const uint32_t looked =
      store_.items.sweep_expired(now_ms, items_per_sweep, [&](Location location) {
        erase_if_still(location, MoveReason::expired, now_ms);
        return true;
      });
  make_moves(now_ms);
  return looked == items_per_sweep;
}

bool HostUpkeep::evict_to(int64_t wanted, uint32_t sweeps, int64_t now_ms) {
  for (; sweeps > 0; --sweeps) {
    if (room() >= wanted) return true;
    const EpochGuard guard(store_.epochs, slot_);
    evict_some(now_ms);
    make_moves(now_ms);
  }
  return room() >= wanted;
}

void HostUpkeep::evict_some(int64_t now_ms) {
  const auto evict = [&](Location location) {
    erase_if_still(location, MoveReason::evicted, now_ms);
    return true;
  };
  switch (store_.options.maxmemory_policy) {
    case EvictionPolicy::noeviction:
      return;
    case EvictionPolicy::allkeys_lru:
      store_.items.sweep_clock(items_per_sweep, evict);
      return;
    case EvictionPolicy::volatile_lru:
      store_.items.sweep_clock(items_per_sweep, evict, true);
      return;
    case EvictionPolicy::allkeys_random:
      store_.items.sweep_random(samples, evict);
      return;
    case EvictionPolicy::volatile_ttl:
      return evict_soonest(now_ms);
  }
}

void HostUpkeep::evict_soonest(int64_t now_ms) {
  Location soonest = location::none;
  int64_t expiry = 0;
  store_.items.sample_volatile(samples, [&](Location location) {
    const int64_t at = store_.items.item(location)->expiry();
    if (at != no_expiry && (soonest == location::none || at < expiry)) {
      soonest = location;
      expiry = at;
    }
    return true;
  });
  if (soonest != location::none) erase_if_still(soonest, MoveReason::evicted, now_ms);
}

void HostUpkeep::compact(int64_t now_ms) {
  const EpochGuard guard(store_.epochs, slot_);
  store_.items.compact(items_per_sweep,
                       [&](Location location) { return move_if_still(location, now_ms); });
  make_moves(now_ms);
}

bool HostUpkeep::erase_if_still(Location location, MoveReason reason, int64_t now_ms) {
  return swap({location, location::none, reason}, now_ms);
}

// Copies the item to another place of its class; where there is none and the policy allows, evicts
// it: of policies for keys with an expiry, only such.
bool HostUpkeep::move_if_still(Location from, int64_t now_ms) {
  const Item* item = store_.items.item(from);
  const Location to = executor_.cache().allocate(item->bytes());
  if (to == location::none) {
    const bool may_go = store_.evicts && (store_.evicts_any || item->expiry() != no_expiry);
    return may_go && evictable() && erase_if_still(from, MoveReason::evicted, now_ms);
  }
  // The expiry may change meanwhile; it is set again under the line's lock.
  item->copy_to(store_.items.address(to));
  store_.items.set_live(to);
  swap({from, to, MoveReason::moved}, now_ms);
  return true;
}

bool HostUpkeep::swap(ItemMove move, int64_t now_ms) {
  if (on_device()) {
    moves_.push_back(move);
    return true;
  }
  move.done = swap_on_host(move, now_ms);
  book(move);
  return move.done;
}

bool HostUpkeep::swap_on_host(const ItemMove& move, int64_t now_ms) {
  const Item& item = *store_.items.item(move.from);
  LineIndex* index = store_.databases[item.database()].index();
  if (index == nullptr) return false;
  const uint64_t hash = store_.hash(item.key(), store_.seed);
  return swap_member<TilePlain>(executor_, *index, hash, move, now_ms);
}

// Within the epoch in which the moves were found.
void HostUpkeep::make_moves(int64_t now_ms) {
  if (moves_.empty()) return;
  if (!device_->swap(*member_, moves_, now_ms)) {
    for (ItemMove& move : moves_) move.done = swap_on_host(move, now_ms);
  }
  for (const ItemMove& move : moves_) book(move);
  moves_.clear();
}

void HostUpkeep::book(const ItemMove& move) {
  if (!move.done) {
    if (move.to != location::none) executor_.cache().retire(move.to);
    return;
  }
  if (move.reason == MoveReason::moved) return;
  HostExecutor::Counters& counters = executor_.counters();
  (move.reason == MoveReason::expired ? counters.expired : counters.evicted).add(1);
  ++erased_;
}

}  // namespace isotherm
