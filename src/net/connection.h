// Connection: one client's socket, with its input, its protocol and its output.
//
// Life within a loop (loop.h). Arrows are what leads on:
//
//   reading ──bytes──▶ ready ──turn: parse, reply──▶ settled ──nothing left──▶ reading
//                        ▲                             │
//                        ├── parsed only a part ◀──────┤
//                        └── output drained ◀── writing┘ the socket takes no more
//
// A read is one asynchronous receive into the room of the input buffer; it starts only when
// everything parsed so far is answered, so the bytes that requests borrow stay where they are.
// While more than `backlog_bytes` wait for a client that does not read, nothing more is parsed or
// read from it. The connection ends when the client closes, on an error, or when its protocol says
// so and the output is written; it is deleted by the loop once no operation is pending.
//
// Threads. Belongs to its loop's thread.
// Limits. A request may take max_request_bytes(options); a longer one ends the connection.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/buffer_pool.h"
#include "net/handler_memory.h"
#include "net/input_buffer.h"
#include "net/output.h"
#include "net/protocol.h"

namespace isotherm::net {

class Loop;

using Socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;

// Which clients a port is for.
enum class Speaks : uint8_t { resp, memcached };

class Connection {
 public:
  static constexpr size_t backlog_bytes = 1 << 20;

  Connection(Loop& loop, BufferPool& pool, Socket socket, std::unique_ptr<Protocol> protocol,
             Speaks speaks, size_t max_request_bytes);

  void start() { settle(); }

  // The steps of a turn.
  void parse(Turn& turn);
  void reply(Turn& turn) { protocol_->reply(turn, output_); }
  bool waits_alone() const { return protocol_->waits_alone(); }
  void run_alone(Turn& turn) { protocol_->run_alone(turn, output_); }
  void flush();   // one gathered write
  void settle();  // what comes next: parse on, read, wait for room, or end

  void close();
  bool deletable() const { return !open_ && pending_operations_ == 0 && !queued; }
  Speaks speaks() const { return speaks_; }

  bool queued = false;  // in a list of its loop
  size_t index = 0;     // in the loop's list of connections

 private:
  void start_read();
  void on_read(const asio::error_code& error, size_t bytes);
  void start_waiting_for_room();
  void on_room(const asio::error_code& error);

  Loop& loop_;
  Socket socket_;
  std::unique_ptr<Protocol> protocol_;
  InputBuffer input_;
  Output output_;
  const Speaks speaks_;
  const size_t max_request_bytes_;
  int pending_operations_ = 0;
  bool open_ = true;
  bool reading_ = false;
  bool waiting_for_room_ = false;
  bool parse_on_ = false;  // the input may hold complete requests
  bool end_of_input_ = false;
  HandlerMemory read_memory_;
  HandlerMemory write_memory_;
};

}  // namespace isotherm::net
