// Index kinds: what the engine of batches (gpu/batch) and a table (gpu/table/fixed_device_table.h)
// ask of an index in device memory. A kind is a struct of types and static functions; nothing is
// called by way of pointers. gpu/kernel/line_kind.h grows; those of gpu/kernel/cache_kind.h have a
// fixed size and evict.
//
// The view, by value in every kernel:
//   View            hash(key), a bijection; home(hash), where the key's entry is looked for, or
//                   home(hash, row) where requests have a time
//   Home            no home by default; is_given(), and clear(), which may leave the rest
//   Totals          sum_up(lane): a warp sums up entries and room for the host, into TableTotals
// Lookups and writes by the tiles of a warp, all lanes of which call together; lanes without a home
// take part:
//   find            the entry's word
//   finds_beside_writes   (a constant that the kind may have) `find` and `write` of lanes may be in
//                   one kernel, for different keys
//   find_place      the state of the key, and where its lane may write: slot, found, word
//   find_first_place   the same, with the free slot that every key of this home would take first
//   write           takes the key from that state to another; false: a tile has to
//   claim           a free slot for an absent key of which other rows claim one, too: one of them
//                   at most succeeds, and none whose key is there (gpu/batch/try_kernels.h)
//   insert_alone    (where the kind has it) puts an absent key, in a kernel in which lanes do
//                   nothing but that and `write`; false: a tile has to
//   count           what each lane inserted and erased, into the table's count
// What no lane could write by itself, by a tile, all lanes of which call together:
//   tile_rows       calls work(owner, home, loaded) for the lanes with a home, one after another
//   load            what `run` wants of a home, loaded
//   Update          run(home, loaded, after) → the state before, or reply_retry without memory;
//                   count, close
// On the host:
//   Owner<Device>   the memory: view, make_room (grow), reserve, and what room there is
//   Scan            a kernel that walks over all entries, from a bound on
//
// Memory. FindShared and PlaceShared are what a block of find_threads lanes keeps for them.
// Threads. A key has one writer in a kernel, but for claims; nobody writes while `find` runs, but
// as above.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "base/macros.h"
#include "gpu/kernel/settle_kernels.h"

namespace isotherm {

// As far as it can be told without a lane.
template <class Kind>
concept IndexKind = requires(const typename Kind::View& view, typename Kind::Home& home) {
  requires std::is_trivially_copyable_v<typename Kind::View>;
  requires std::is_trivially_copyable_v<typename Kind::Totals>;
  { view.hash(uint64_t{}) } -> std::same_as<uint64_t>;
  { view.home(uint64_t{}) } -> std::same_as<typename Kind::Home>;
  { home.is_given() } -> std::same_as<bool>;
  home.clear();
  typename Kind::FindShared;
  typename Kind::PlaceShared;
  typename Kind::Scan;
};

// Where the key of a row is looked for, with the row's time where the kind wants to know it.
template <class View>
ISOTHERM_HOST_DEVICE ISOTHERM_INLINE auto home_of_row(const View& view, uint64_t hash,
                                                      uint64_t row) {
  if constexpr (requires { view.home(hash, row); }) {
    return view.home(hash, row);
  } else {
    return view.home(hash);
  }
}

}  // namespace isotherm
