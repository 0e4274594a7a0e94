// What a row does if its key is not in memory and the store has a backing (executor/backing.h): it
// brings the item into memory, clean, as if it had been there before, or learns that the key does
// not exist.
//
// The item is put under the lock of the key's line, if memory still lacks the key and nobody has
// changed it since the backing was asked. So it overtakes no write and no delete. No sink is told,
// since the store has what it had before.
//
// Everything here must be a template or always inlined, as in host_stages.h.
#pragma once

#include <cstring>
#include <utility>

#include "executor/backing.h"
#include "executor/host/host_executor.h"
#include "index/item_table.h"

namespace isotherm {

enum class Brought : uint8_t {
  here,    // or somebody else was faster: look again
  parked,  // the row runs again
  absent,
  failed,
  no_memory,
};

// Whether what the request does, or shows, depends on whether the key is there.
ISOTHERM_INLINE bool needs_old(const Request& request) {
  constexpr uint16_t by_old = option::if_absent | option::if_present | option::if_version |
                              option::keep_expiry | option::want_previous;
  return request.op != Op::none && (request.op != Op::put || request.has(by_old));
}

// Puts what the backing has in the place of nothing; whether it is there now.
template <class Tile, class Index>
Brought put_clean(HostExecutor::Run& run, const Request& request, uint64_t hash, Index& index,
                  Location root, const Backing::Stored& stored) {
  HostExecutor& executor = run.executor;
  HostStore& store = executor.store();
  const Item::Parts parts{.key = request.key,
                          .value_bytes = stored.value.size(),
                          .expiry = stored.expiry,
                          .flags = stored.flags,
                          .database = request.database,
                          .state = stored.state};
  // What was shown already need not be here.
  const bool over = run.known == nullptr;
  const Location location = executor.cache().allocate(parts.bytes(), over);
  if (location == location::none) return Brought::no_memory;
  Item* const item = Item::create(store.items.address(location), parts);
  item->set_version(stored.version);
  if (!stored.value.empty()) {
    std::memcpy(item->value_data(), stored.value.data(), stored.value.size());
  }
  const Composed composed = compose(store.items, executor.cache(), root, location::none, location);
  bool live = false;
  Swapped swapped = Swapped::no_memory;
  if (composed.ok) {
    swapped = swap_root<Tile>(index, hash, root, composed.root, [&](auto& /*versions*/) {
      if (!store.backing->is_as_seen(stored.seen)) return false;
      store.items.set_live(location);
      return live = true;
    });
  }
  if (swapped == Swapped::done) {
    if (root != composed.root) retire_root(executor.cache(), root);
    if (store.touches) executor.begin_marks(hash, location::none, location);
    executor.settle(store.databases[request.database], {}, no_expiry, stored.expiry);
    if (stored.expiry != no_expiry) store.items.note_expiry(location, stored.expiry);
    return Brought::here;
  }
  if (composed.ok && composed.root != root && composed.root != location) {
    discard_root(executor.cache(), composed.root);
  }
  // A sweep may have seen it.
  live ? executor.cache().retire(location) : executor.cache().free_unpublished(location);
  return swapped == Swapped::lost ? Brought::here : Brought::no_memory;
}

// `root`: where the key was not found. `stored`: what the backing said; of a key that is absent,
// which changes were known.
template <class Tile, class Index>
__attribute__((noinline)) Brought bring(HostExecutor::Run& run, Batch::Row row,
                                        const Request& request, Index& index, Location root,
                                        Backing::Stored& stored) {
  if (run.known != nullptr) {
    if (std::exchange(run.is_known_used, true)) return Brought::absent;
    return put_clean<Tile>(run, request, run.columns.hash[row], index, root, *run.known);
  }
  Backing& backing = *run.executor.store().backing;
  const Backing::Answer answer =
      backing.look(request.database, request.key, run.now_ms, run.parking == nullptr, stored);
  switch (answer) {
    case Backing::Answer::found:
      break;
    case Backing::Answer::coming:
      run.park(row, stored.awaited);
      return Brought::parked;
    case Backing::Answer::absent:
      return Brought::absent;
    case Backing::Answer::failed:
      return Brought::failed;
  }
  return put_clean<Tile>(run, request, run.columns.hash[row], index, root, stored);
}

}  // namespace isotherm
