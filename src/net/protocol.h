// Protocol: what a connection speaks. A loop turn drives every ready connection through it.
//
// One turn of a loop:
//   1. for every readable connection: read bytes, then `parse` appends all complete requests to the
//      turn's one batch and remembers, in order, what each command will answer;
//   2. the loop starts the batch, and may serve other connections until it has ended
//   (net/loop/loop.h);
//   3. for every connection whose rows are ready: `reply` writes the answers in order, until the
//      output passes `output_bound`;
//   4. the loop clears the batch;
//   5. for every connection that waits with a command that runs alone: `run_alone`.
// A command that runs alone (DBSIZE, SCAN, …) ends the connection's parse of this turn: it looks at
// a whole database when all before it is answered and nothing behind it was run. One that walks
// over many items does so in steps, a turn each (walk.h). Then the connection parses on.
//
// Bounds. A client that does not read must not make the server hold much. How long a value is
// becomes known only when its row has run. So reads are run, and answered until the output is full.
// The other reads are taken back into the input, and run again when the client has read. A change
// cannot run again, so it must be answered at once, and so must all requests before it. Therefore a
// turn takes few reads before a change (`reads_before_change`). So an output exceeds its bound at
// most by the replies of one request, or of those few reads. Protocols expect answers to be as long
// as the last ones, so that few rows run in vain.
//
// Threads. A protocol object belongs to its connection's loop.
// Bytes. `input` stays where it is until `reply` and `run_alone` have returned, so requests borrow
// keys and values from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "isotherm/batch.h"
#include "items/arriving_item.h"
#include "net/copy_ration.h"
#include "net/counters.h"
#include "net/input_buffer.h"
#include "net/output.h"

namespace isotherm::net {

class Walk;
struct ServerState;  // what all connections share: options, counters (net/server_state.h)

// Bytes of unsent output from which on no more requests are parsed or answered.
inline constexpr size_t output_bound = 64 << 10;
// A connection that is owed no more than so many bytes in a turn asks for little, and is answered
// in that turn.
inline constexpr size_t little_owed = 4 << 10;

// Keys of rows that are under way, which requests behind them may not pass (net/loop/aside.h).
using WaitingKeys = std::unordered_set<std::string_view>;

// Where in an output the replies to requests end, for who sends each by itself.
class ReplyEnds {
 public:
  // A reply that is empty is none.
  void note(size_t end) {
    if (end != (ends_.empty() ? 0 : ends_.back())) ends_.push_back(end);
  }
  void clear() { ends_.clear(); }
  const std::vector<size_t>& all() const { return ends_; }

 private:
  std::vector<size_t> ends_;
};

// What the connections of one loop share during a turn.
struct Turn {
  Batch& batch;
  Worker& worker;
  ServerState& server;
  LoopCounters& counters;  // of this loop
  const Clock& clock;
  CopyRation& copies;  // of this loop
  // An output of so many bytes takes no more answers, but those that must be given. 0: the turn has
  // written its share, and gives besides only the answers of connections that ask for little.
  size_t full_output = output_bound;
  // Where the replies that are written end; null: nobody asks.
  ReplyEnds* reply_ends = nullptr;
  // Keys of requests under way of the connection that is parsed; null: there are none.
  const WaitingKeys* waiting = nullptr;

  // The time, not before anything that was received so far. The clock is read when somebody asks,
  // so once in most turns.
  int64_t now_us() {
    now_ms();
    return time_us;
  }
  int64_t now_ms() {
    if (!time_known) [[unlikely]] {
      time_us = clock.now_us();
      time_ms = time_us / 1000;
      time_known = true;
    }
    return time_ms;
  }
  void received() { time_known = false; }

  // What all rows of the batch are to do, where somebody has summed it up; 0: nobody has.
  uint64_t work = 0;

  int64_t time_us = 0;
  int64_t time_ms = 0;
  bool time_known = false;
};

// How many rows that show a value may run in a turn before one that changes the store, where
// answers have about `expected` bytes.
inline constexpr Batch::Row reads_before_change(size_t expected) {
  constexpr size_t most = 64;
  return static_cast<Batch::Row>(std::clamp<size_t>(output_bound / expected, 1, most));
}

class Protocol {
 public:
  virtual ~Protocol() = default;

  // Parses complete requests at the front of `input` and returns the bytes consumed. Stops at an
  // incomplete request, at a command that runs alone, and after a command that ends the connection.
  virtual size_t parse(std::string_view input, Turn& turn) = 0;

  // Writes the replies to everything parsed since the last call, in order, as far as the output's
  // bound lets it. Returns how many bytes at the end of what was parsed are to be parsed again.
  virtual size_t reply(Turn& turn, Output& output) = 0;

  // The answers owed for a turn that later ones overtake (net/loop/aside.h).
  class Owed {
   public:
    virtual ~Owed() = default;

    std::unique_ptr<ArrivingItem> arrived;
  };
  // Whether requests may be parsed behind those that owe answers now. All these can then be given,
  // whatever the output holds.
  virtual bool may_put_aside() const { return false; }
  // What is owed now, with all that the answers and their rows borrow from the protocol.
  virtual std::unique_ptr<Owed> put_aside() { return nullptr; }
  // Writes all of it.
  virtual void reply_aside(Owed& /*owed*/, Turn& /*turn*/, Output& /*output*/) {}
  // Whether anything is owed for what was parsed.
  virtual bool owes() const { return true; }

  // Bytes of the answers that stand in no row of the batch, where these may be many.
  virtual size_t owed_texts() const { return 0; }

  // True while a command that runs alone waits; it is the last command parsed.
  virtual bool waits_alone() const = 0;
  // Runs it and writes its answer. A walk appends the row of its next step, and is told of its end
  // by `end_step`; it waits again until it is over.
  virtual void run_alone(Turn& turn, Output& output) = 0;
  virtual bool walks() const = 0;
  // Null: none is under way.
  virtual const Walk* walk() const = 0;
  virtual void end_step(Turn& turn, Output& output) = 0;

  // True when the last parse stopped before the end of its input though more could be parsed: the
  // connection parses on in the next turn, without waiting for more bytes.
  virtual bool stopped_early() const { return waits_alone(); }

  // A large value that the client is about to send, or is sending. It is received into its place
  // rather than into the input; what the input has of it is moved there. Called when all that was
  // parsed is answered. Null: no large value is expected, or all of it has come, or there is no
  // room for it beside those that others are sending (`waits_to_arrive`).
  virtual ArrivingItem* arriving(InputBuffer& input) = 0;
  bool waits_to_arrive() const { return waits_to_arrive_; }

  // Forgets all of an input that does not go on; nothing is owed.
  virtual void restart() {}

  // Bytes it holds for requests that are not complete, beside the input.
  virtual size_t memory() const { return 0; }

  // True when the last parse stopped before a command that CLIENT PAUSE holds back.
  bool held() const { return held_; }

  // True once no further input will be read: the connection closes when the output is written.
  virtual bool closing() const = 0;

  // How many bytes of input the request at the front needs at least, as far as known; lets the
  // connection size its buffer once for a large value. 0: unknown.
  virtual size_t wanted() const = 0;

 protected:
  bool held_ = false;
  bool waits_to_arrive_ = false;
  // The large value of a request that runs in this turn.
  std::unique_ptr<ArrivingItem> arrived_;
};

}  // namespace isotherm::net
