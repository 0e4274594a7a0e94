// The part of HostUpkeep that makes one move: an item leaves its place in the index, for good or
// for another one.
#include <algorithm>

#include "base/tile.h"
#include "executor/host/evicting_index.h"
#include "executor/upkeep/host_upkeep.h"
#include "index/item_table.h"
#include "router/hot_side.h"

namespace isotherm {

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
  const uint64_t hash = store_.hash(item.key(), store_.seed);
  // First: a flush takes the index away.
  if (store_.gate.is_held(hash, item.database())) return false;
  Database& database = store_.databases[item.database()];
  if (CacheIndex* const cache = database.cache(); cache != nullptr) {
    return as_kind(store_.options.index, *cache, [&](auto& its) {
      EvictingIndex index(its, executor_, item.database(), 0);
      return swap_member<TilePlain>(executor_, index, hash, move, now_ms);
    });
  }
  LineIndex* index = database.index();
  if (index == nullptr) return false;
  if (store_.hot != nullptr) {
    HotIndex hot(store_.hot->table(), *index);
    return swap_member<TilePlain>(executor_, hot, hash, move, now_ms);
  }
  return swap_member<TilePlain>(executor_, *index, hash, move, now_ms);
}

bool HostUpkeep::is_held(const ItemMove& move) const {
  const Item& item = *store_.items.item(move.from);
  return store_.gate.is_held(store_.hash(item.key(), store_.seed), item.database());
}

// Puts nothing off: a later sweep finds them again.
void HostUpkeep::leave_held() {
  const auto held = std::partition(moves_.begin(), moves_.end(),
                                   [&](const ItemMove& move) { return !is_held(move); });
  std::for_each(held, moves_.end(), [&](const ItemMove& move) { book(move); });
  moves_.erase(held, moves_.end());
}

// Within the epoch in which the moves were found; how many were done.
size_t HostUpkeep::make_moves(int64_t now_ms) {
  if (moves_.empty()) return 0;
  EpochDomain::work(*slot_);
  if (store_.gate.armed()) leave_held();
  if (!device_->swap(*participant_, moves_, now_ms)) {
    // Values on a device are lost by now.
    const auto lost = [&](const ItemMove& move) {
      return move.to != location::none && store_.items.item(move.to)->away();
    };
    for (ItemMove& move : moves_) move.done = !lost(move) && swap_on_host(move, now_ms);
  }
  const auto done =
      std::count_if(moves_.begin(), moves_.end(), [](const ItemMove& move) { return move.done; });
  for (const ItemMove& move : moves_) book(move);
  moves_.clear();
  return static_cast<size_t>(done);
}

void HostUpkeep::book(const ItemMove& move) {
  if (!move.done) {
    if (move.to != location::none) drop_copy(executor_, move);
    return;
  }
  if (move.reason == MoveReason::moved) return count_value_move(move);
  HostExecutor::Counters& counters = executor_.counters();
  HostExecutor::Gone& gone = counters.gone[ItemStore::class_number(move.from)];
  const bool expired = move.reason == MoveReason::expired;
  (expired ? counters.expired : counters.evicted).add();
  (expired ? gone.expired : gone.evicted).add();
  if (!expired) gone.volatile_evicted.add(store_.items.item(move.from)->expiry() != no_expiry);
  ++erased_;
}

void HostUpkeep::count_value_move(const ItemMove& move) {
  if (!values_) return;
  const bool was_away = store_.items.item(move.from)->away();
  const bool is_away = store_.items.item(move.to)->away();
  if (was_away == is_away) return;
  // One that came back because it is read is not to go at once.
  if (was_away) store_.items.touch(move.to);
  (is_away ? store_.values->to_device : store_.values->from_device)
      .fetch_add(1, std::memory_order_relaxed);
}

}  // namespace isotherm
