// Descriptors of a tree: how many of its files it keeps open.
//
// All of them where the process may have many descriptors, which is faster; else a share of those,
// so that clients and other files have the rest, and files are opened and closed as they are read.
//
// Threads. Any; the limit is the process's.
#pragma once

#include <cstdint>

namespace isotherm::tree_descriptors {

inline constexpr uint64_t many = 1 << 16;
inline constexpr uint64_t least = 20;  // RocksDB takes no less

constexpr uint64_t share_of(uint64_t limit) { return limit / 4 > least ? limit / 4 : least; }

}  // namespace isotherm::tree_descriptors
