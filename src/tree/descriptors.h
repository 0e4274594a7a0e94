// Descriptors of a tree: how many of its files it keeps open.
//
// All of them while they are few beside what the process may have open, which is faster; and else a
// share of that, so that clients and other files have the rest, and files are opened and closed as
// they are read. The limit is looked at when the tree is opened.
//
// Threads. Any; the limit is the process's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace isotherm::tree_descriptors {

// With so many no tree is too large.
inline constexpr uint64_t many = 1 << 17;

// That are open at most, of a process that may have `limit`.
constexpr uint64_t share_of(uint64_t limit) {
  constexpr uint64_t least = 20;  // RocksDB takes no less
  return std::max(limit / 4, least);
}

// Whether all of so many may be open. Merging files makes new ones before the old are gone.
constexpr bool may_all_be_open(uint64_t files, uint64_t limit) {
  return limit >= many || files <= share_of(limit) / 2;
}

}  // namespace isotherm::tree_descriptors
