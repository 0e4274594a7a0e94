// memcached's commands for whoever runs it: `slabs`, `cache_memlimit`, `verbosity`, and those of
// `stats` that go over all items.
//
// Slabs here are the size classes of items (items/size_classes.h), numbered from 1 on; what is
// larger than the largest class has the number behind them. The compactor moves memory between
// classes by itself, so `slabs reassign` finds nothing to move, and `slabs automove` has nothing to
// switch.
//
// Threads. They run on the loop of the connection; all but `slabs` run alone (protocol.h).
// Limits. A cachedump ends with its limit, as in memcached after 2 MiB, or when it has looked at
// `dump_items` items.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

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
// Of `stats <arguments>` that go over all items: `cachedump …`, items of a class, and `sizes`. Null
// where the answer is an error, which is written.
std::unique_ptr<Walk> begin_walk(std::string_view arguments, Output& output);
// `verbosity <word>`, which is the level of the log: 0 notice, 1 verbose, 2 and more debug; returns
// the answer.
std::string_view set_verbosity(std::string_view word, ServerState& server);
uint64_t verbosity_of(const ServerState& server);

}  // namespace isotherm::net
