// swap_member: takes an item out of the index, or moves it to another location, for background
// work: "swap if the location is still this one", so that no write that came in between is lost.
#pragma once

#include <cstdint>

#include "executor/commit_sink.h"
#include "executor/host/host_executor.h"
#include "index/item_table.h"

namespace isotherm {

// Why an item leaves its place.
enum class MoveReason : uint8_t { evicted, expired, moved, flushed };

struct ItemMove {
  Location from;
  Location to;  // location::none: it goes; else a copy of it, which becomes live with the move
  MoveReason reason;
  bool done = false;
};

// Whether an item that was chosen to make room has become one that the policy lets stay.
inline bool spared(const HostStore& store, const ItemMove& move, int64_t expiry) {
  return move.reason == MoveReason::evicted && !store.evicts_any && expiry == no_expiry;
}

// Whether an item that is to be evicted has to stay, or has gone to the hook's place.
inline DemotionHook::Fate fate_of(const HostStore& store, const ItemMove& move, const Item& item) {
  using Fate = DemotionHook::Fate;
  if (move.reason != MoveReason::evicted || store.demotion == nullptr) return Fate::dropped;
  return store.demotion->demote(item);
}

// An item that left its place for good, unless it was flushed, which is told once for all.
inline void tell_of_end(const HostStore& store, const ItemMove& move, const Item& item,
                        uint64_t hash, uint64_t version) {
  CommitSink* const sink = store.sink.load(std::memory_order_acquire);
  if (sink == nullptr || move.reason == MoveReason::flushed) return;
  using enum ItemChange::Reason;
  sink->changed({move.reason == MoveReason::expired ? expired : evicted, item.database(),
                 item.key(), hash, &item, nullptr, no_expiry, version, 0});
}

// Puts `move.to` in the place of `move.from` in `index`, the index as the item's database has it;
// false when it has `from` no more. `move.from` must be readable, so found in the caller's epoch.
template <class Tile, class Index>
bool swap_member(HostExecutor& executor, Index& index, uint64_t hash, const ItemMove& move,
                 int64_t now_ms) {
  ItemStore& items = executor.store().items;
  Item* item = items.item(move.from);
  Item* copy = move.to != location::none ? items.item(move.to) : nullptr;
  for (;;) {
    const Location root = index.template find<Tile>(hash).word;
    if (resolve(items, root, item->key()).location != move.from) return false;
    const Composed composed = compose(items, executor.cache(), root, move.from, move.to);
    if (!composed.ok) return false;
    int64_t expiry = no_expiry;
    bool refused = false;
    const Swapped swapped = swap_root<Tile>(index, hash, root, composed.root, [&](auto& versions) {
      expiry = item->expiry();
      refused = move.reason == MoveReason::expired ? !item->expired(now_ms)
                                                   : spared(executor.store(), move, expiry);
      // One that was set since the copy was made, which has no place for it.
      refused |= copy != nullptr && expiry != no_expiry && !copy->has_expiry();
      if (refused) return false;
      // The item is there, so the swap is certain.
      if (copy == nullptr) {
        const DemotionHook::Fate fate = fate_of(executor.store(), move, *item);
        refused = fate == DemotionHook::Fate::kept;
        if (refused) return false;
        const uint64_t version = versions.next_version();
        if (fate == DemotionHook::Fate::dropped) {
          tell_of_end(executor.store(), move, *item, hash, version);
        }
        return true;
      }
      if (copy->has_expiry()) copy->set_expiry(expiry);
      if (ISOTHERM_UNLIKELY(copy->has_state())) copy->set_state(item->state());
      items.set_live(move.to);
      return true;
    });
    if (swapped == Swapped::done) {
      if (root != composed.root) retire_root(executor.cache(), root);
      Database& database = executor.store().databases[item->database()];
      if (copy != nullptr) items.hand_on_marks(move.from, move.to);
      if (move.reason == MoveReason::evicted) {
        items.probation().note_evicted(hash, items.is_proven(move.from));
      }
      executor.settle(database, {move.from, item}, expiry, copy != nullptr ? expiry : no_expiry,
                      {move.to, copy});
      if (expiry != no_expiry && copy != nullptr) items.note_expiry(move.to, expiry);
      return true;
    }
    if (composed.root != move.to) discard_root(executor.cache(), composed.root);
    if (refused || swapped == Swapped::no_memory) return false;
  }
}

// Frees the copy of a move that was not done.
inline void drop_copy(HostExecutor& executor, const ItemMove& move) {
  HostStore& store = executor.store();
  const Item& copy = *store.items.item(move.to);
  const Item& item = *store.items.item(move.from);
  if (copy.away() && !DeviceValues::same_value(item, copy)) {
    store.values->log().free(copy.value_place(), copy.value_bytes());
  }
  if (store.items.is_live(move.to)) {
    executor.cache().retire(move.to);  // a sweep may have seen it
  } else {
    executor.cache().free_unpublished(move.to);
  }
}

}  // namespace isotherm
