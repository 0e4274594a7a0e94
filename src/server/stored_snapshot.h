// What a start makes of a snapshot (durability/rdb_file.h): the store has what it has, but for what
// has expired meanwhile.
//
// A tree (tree/tree.h) that was ever written is newer than any snapshot beside it, which then is
// not looked at. One that was not is filled from it, and may have more than memory holds. A start
// that ends in the middle of that leaves a mark in the tree, and the next one begins anew.
//
// Threads. Before any worker of the engine, by several threads.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "net/server_options.h"

namespace isotherm {

struct LoadedSnapshot {
  bool found = false;
  uint64_t loaded = 0;
  uint64_t expired = 0;
};

// Throws RdbError, or TreeError of the tree, where the file is none, is damaged, has what the store
// has no place for, or more than it has room for; nothing on disk is changed but the tree. Without
// a file it does nothing.
LoadedSnapshot load_snapshot(const net::ServerOptions& options, Engine& engine);

}  // namespace isotherm
