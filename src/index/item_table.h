// ItemTable: byte-string keys on a LineIndex; the word is the location of an item.
//
// Root and members. The word found for a hash is the root: none, the location of one item, or
// that of a collision node, which lists the items of all keys whose 64-bit hashes agree. The member
// of a key is the item under the root whose full key is equal; hashes alone decide nothing.
//
// Writing is one compare-and-swap of roots under the line's lock: `resolve` the member, prepare a
// new item, `compose` the root that has it in the old member's place, `swap`. A request that loses
// frees what it prepared and starts again. A root cannot return to an earlier value while a request
// compares: a location is reused only after the epochs of all threads that may hold it.
//
// Threads. Any, within an epoch; allocation goes through the caller's cache.
// Limits. A collision node holds 4,095 members; one more is refused as out of memory.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>

#include "base/broken.h"
#include "base/bytes.h"
#include "index/line_index.h"
#include "items/item.h"
#include "items/item_store.h"
#include "items/location.h"

namespace isotherm {

struct Member {
  Location location = location::none;
  Item* item = nullptr;
};

// The member of `key` under `root`.
Member resolve_collision(const ItemStore& items, Location root, std::string_view key);

ISOTHERM_INLINE Member resolve(const ItemStore& items, Location root, std::string_view key) {
  if (ISOTHERM_UNLIKELY(location::kind(root) == location::Kind::collision)) {
    return resolve_collision(items, root, key);
  }
  if (root == location::none) return {};
  Item* item = items.item(root);
  const std::string_view stored = item->key();
  if (ISOTHERM_UNLIKELY(stored.size() != key.size() ||
                        !equal_bytes(stored.data(), key.data(), key.size()))) {
    return {};
  }
  return {root, item};
}

// A root with `to` in the place of `from`; either may be none, for inserting and erasing. `ok` is
// false when a node was needed and could not be had.
struct Composed {
  Location root = location::none;
  bool ok = true;
};
Composed compose(ItemStore& items, ItemStore::Cache& cache, Location root, Location from,
                 Location to);

// Frees a composed root that was never published.
inline void discard_root(ItemStore::Cache& cache, Location root) {
  if (location::kind(root) == location::Kind::collision) cache.free_unpublished(root);
}
// Retires the root that a swap replaced; its members are not touched.
inline void retire_root(ItemStore::Cache& cache, Location root) {
  if (location::kind(root) == location::Kind::collision) cache.retire(root);
}

// Calls visit(location) for every member of `root`.
template <class Visit>
void for_each_member(const ItemStore& items, Location root, Visit&& visit) {
  if (location::kind(root) != location::Kind::collision) {
    if (root != location::none) visit(root);
    return;
  }
  const auto* node = reinterpret_cast<const CollisionNode*>(items.address(root));
  for (uint64_t i = 0; i < node->count; ++i) visit(node->members[i]);
}

enum class Swapped : uint8_t { done, lost, no_memory };

// Puts `to` in the place of `from` under `hash`. `prepare(versions)` runs under the line's lock
// once the root is seen to be `from`, and may still refuse by returning false (the swap is then
// lost); versions.next_version() gives the version of the write.
// `publish()` runs under the lock, too, when the swap is certain and nobody can see it yet. `Index`
// is a LineIndex, or a class with the same `update`.
template <class Tile, class Index, class Prepare, class Publish = NoPublish>
ISOTHERM_INLINE Swapped swap_root(Index& index, uint64_t hash, Location from, Location to,
                                  Prepare&& prepare, Publish&& publish = {}) {
  bool lost = false;
  const auto decide = [&](bool found, uint64_t word, auto& versions) -> Decision {
    lost = (found ? word : location::none) != from && !broken(Rule::swaps);
    if (lost || !prepare(versions)) {
      lost = true;
      return {};
    }
    return {to != location::none ? Action::store : Action::erase, to};
  };
  const auto publish_in_time = [&] {
    if (!broken(Rule::telling)) publish();
  };
  Updated updated;
  try {
    updated = index.template update<Tile>(hash, decide, publish_in_time);
  } catch (const std::bad_alloc&) {  // of whoever is told: nothing has changed
    return Swapped::no_memory;
  }
  if (lost) return Swapped::lost;
  if (updated.change == Change::no_line) return Swapped::no_memory;
  if (broken(Rule::telling)) publish();
  return Swapped::done;
}

}  // namespace isotherm
