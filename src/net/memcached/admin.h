// memcached's commands about its own memory: `slabs`, `cache_memlimit`, `stats cachedump`.
//
// Slabs here are the size classes of items (items/size_classes.h), numbered from 1 on; what is
// larger than the largest class has the number behind them. The compactor moves memory between
// classes by itself, so `slabs reassign` finds nothing to move, and `slabs automove` has nothing to
// switch.
//
// Threads. They run on the loop of the connection; a cachedump and `set_memory_limit` run alone
// (protocol.h).
// Limits. A cachedump ends with its limit, as in memcached after 2 MiB, or when it has looked at
// `dump_items` items.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/engine.h"
#include "net/memcached/line.h"
#include "net/output.h"
#include "net/walk.h"

namespace isotherm::net {

struct ServerState;

inline constexpr uint64_t dump_items = 1 << 20;

// The answer to `slabs …`.
std::string_view slabs_answer(const Words& words);
// `cache_memlimit <word>`: changes the cap, or not; returns the answer.
std::string_view set_memory_limit(std::string_view word, ServerState& server);
// `stats <arguments>`, which are a cachedump: items of a class. Null where the answer is an error,
// which is written.
std::unique_ptr<Walk> begin_cachedump(std::string_view arguments, Output& output);
// `stats items` and `stats slabs`.
void write_items(const Engine& engine, Output& output);
void write_slabs(const Engine& engine, Output& output);

}  // namespace isotherm::net
