// LoopTurn: one turn of a loop: its batch, and the connections whose requests it has
// (net/loop/loop.h).
//
// A turn is over when all its connections have their answers and the batch is cleared. Loops reuse
// turns, so a turn that has run before allocates nothing.
//
// Threads. It belongs to its loop's thread; its batch belongs to whoever runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "isotherm/batch.h"
#include "net/protocol.h"
#include "net/server_state.h"

namespace isotherm::net {

class Connection;

struct LoopTurn {
  LoopTurn(Worker& worker, ServerState& server, LoopCounters& counters, CopyRation& copies)
      : turn{batch, worker, server, counters, server.clock, copies} {}
  LoopTurn(const LoopTurn&) = delete;
  LoopTurn& operator=(const LoopTurn&) = delete;

  Batch batch;
  Turn turn;
  std::vector<Connection*> connections;  // that have no answers yet
  bool alone = false;                    // theirs ran alone, and are written already
  bool walks = false;                    // alone, and has steps of walks
  int64_t began_us = 0;
  // How much the store had copied before the turn, if requests of the turn copy.
  static constexpr uint64_t copies_nothing = ~uint64_t{0};
  uint64_t copied_before = copies_nothing;
};

}  // namespace isotherm::net
