// The answers to memcached's `stats`, and what `stats reset` sets back.
//
// Only what Isotherm knows is listed: names and meaning are memcached's, lines for things that do
// not exist here (LRU segments, libevent) are left out; docs/differences.md names them. Where
// datagrams are served, lines behind all others say what became of them.
//
// Threads. The loops' counters are never set back, so a reset remembers their sums and `stats`
// subtracts them. Any loop may reset or read.
#pragma once

#include <string_view>

namespace isotherm::net {

struct ServerState;
class Output;

// `arguments`: what stands behind `stats`; nothing: the general statistics.
void write_stats(std::string_view arguments, ServerState& server, Output& output);

}  // namespace isotherm::net
