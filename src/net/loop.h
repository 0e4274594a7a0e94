// Loop: one thread that serves its share of the connections, a turn at a time.
//
// A turn:
//   1. wait for events, then run all handlers that are ready: each receive put the bytes of one
//      connection into its buffer and the connection into `ready_`;
//   2. parse every ready connection into the one batch; past `batch_rows_per_turn` the rest waits
//      for the next turn;
//   3. submit the batch, which ends before submit returns;
//   4. write every reply into its connection's output, then clear the batch: nothing the store gave
//   is
//      held while a socket is written;
//   5. one gathered write per connection, then its next read;
//   6. commands that run alone;
//   7. a bounded step of the store's background work.
// While background work or unparsed input is left, the loop polls instead of waiting. An idle loop
// wakes ten times a second for background work.
//
// Memory. After some turns have warmed it up, a turn allocates nothing. Buffers and the batch are
// reported to the engine, which counts them against maxmemory.
//
// Threads. `adopt` and `stop` may be called by any thread; everything else is the loop's own.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "net/buffer_pool.h"
#include "net/connection.h"
#include "net/server_state.h"

namespace isotherm::net {

class Loop {
 public:
  static constexpr Batch::Row batch_rows_per_turn = 1 << 16;

  Loop(ServerState& server, LoopCounters& counters);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void start();  // the thread
  void stop();   // asks the thread to end its turn, close its connections and return
  void join();

  // Takes over a connected, non-blocking socket.
  void adopt(int descriptor, Speaks speaks);

  asio::io_context& context() { return context_; }

  // For connections.
  void ready(Connection& connection);
  void ended(Connection& connection);
  void count_input(size_t bytes) { counters_.bytes_in.add(bytes); }
  void count_output(size_t bytes) { counters_.bytes_out.add(bytes); }

 private:
  void run();
  void turn();
  void parse_ready(Turn& turn);
  void run_batch(Turn& turn);
  void finish_connections(Turn& turn);
  void delete_ended();
  void report_memory();
  void wake_regularly();
  void welcome(int descriptor, Speaks speaks);
  void close_all();

  ServerState& server_;
  LoopCounters& counters_;
  asio::io_context context_;
  asio::steady_timer timer_;
  std::thread thread_;
  bool stopping_ = false;

  BufferPool pool_;
  Batch batch_;
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> ready_;   // to be parsed
  std::vector<Connection*> parsed_;  // in this turn
  std::vector<Connection*> ended_;   // to be deleted
  size_t reported_bytes_ = 0;
};

}  // namespace isotherm::net
