// The memcached text protocol on a connection.
//
//   line.h                  words and numbers of a command line
//   parser.h                bytes → requests of the batch and pending answers, in order
//   writer.h                reply slots → answers
//   stats.h                 `stats`
//   net/memcached_flush.h   the delayed flush_all
//
// What it answers is what memcached 1.6.18 answers, byte for byte; docs/differences.md lists where
// it is not. Every request goes to database 0, so both ports see the same data: an item set through
// RESP has the flags 0.
//
// stats runs alone. A delayed flush_all that is due runs before what comes then, whoever asks: a
// loop, or who answers frames, calls `add_due_flush`, and so does a loop's timer.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.h"
#include "net/protocol.h"

namespace isotherm::net {

std::unique_ptr<Protocol> make_memcached_protocol(ServerState& server);

// A row that empties database 0, when a delayed flush_all is due.
void add_due_flush(ServerState& server, Batch& batch, int64_t now_ms);

}  // namespace isotherm::net
