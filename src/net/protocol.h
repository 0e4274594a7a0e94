// Protocol: what a connection speaks. A loop turn drives every ready connection through it.
//
// One turn of a loop:
//   1. for every readable connection: read bytes, then `parse` appends all complete requests to the
//      turn's one batch and remembers, in order, what each command will answer;
//   2. the loop submits the batch;
//   3. for every connection that parsed something: `reply` writes the answers in order;
//   4. the loop clears the batch;
//   5. for every connection that waits with a command that runs alone: `run_alone`.
// A command that runs alone (FLUSHALL, DBSIZE, SCAN, …) ends the connection's parse of this turn:
// it may use the worker's functions for a whole database, which a batch that holds replies forbids.
// The connection parses on in the next turn.
//
// Threads. A protocol object belongs to its connection's loop.
// Bytes. `input` stays where it is until `reply` and `run_alone` have returned, so requests borrow
// keys and values from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "net/counters.h"
#include "net/output.h"

namespace isotherm::net {

struct ServerState;  // what all connections share: options, counters (net/server_state.h)

// What the connections of one loop share during a turn.
struct Turn {
  Batch& batch;
  Worker& worker;
  ServerState& server;
  LoopCounters& counters;  // of this loop
  int64_t now_ms;          // the same for the whole turn
};

class Protocol {
 public:
  virtual ~Protocol() = default;

  // Parses complete requests at the front of `input` and returns the bytes consumed. Stops at an
  // incomplete request, at a command that runs alone, and after a command that ends the connection.
  virtual size_t parse(std::string_view input, Turn& turn) = 0;

  // Writes the replies to everything parsed since the last call, in order.
  virtual void reply(Turn& turn, Output& output) = 0;

  // True while a command that runs alone waits; it is the last command parsed.
  virtual bool waits_alone() const = 0;
  // Runs it and writes its answer. The batch is empty, and is empty again afterwards.
  virtual void run_alone(Turn& turn, Output& output) = 0;

  // True when the last parse stopped before the end of its input though more could be parsed: the
  // connection parses on in the next turn, without waiting for more bytes.
  virtual bool stopped_early() const { return waits_alone(); }

  // True when the last parse stopped before a command that CLIENT PAUSE holds back.
  virtual bool held() const = 0;

  // True once no further input will be read: the connection closes when the output is written.
  virtual bool closing() const = 0;

  // How many bytes of input the request at the front needs at least, as far as known; lets the
  // connection size its buffer once for a large value. 0: unknown.
  virtual size_t wanted() const = 0;
};

}  // namespace isotherm::net
