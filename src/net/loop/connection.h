// Connection: one client's socket, with its input, its protocol and its output.
//
// Life within a loop (loop.h). Arrows are what leads on:
//
//   waiting ──event──▶ ready ──turn: receive, parse, reply, write──▶ settled ──nothing left──▶
//   waiting
//                        ▲                                             │
//                        └── parsed, received or written only a part ◀─┘
//
// Events come once (socket_events.h), so a connection remembers what it knows of its socket. An
// event sets `readable_`, and a receive that does not fill its room clears it: a socket that gives
// less than it was asked for is empty. Two cases differ: the end of a client that has hung up
// causes no further event, and urgent bytes cut receives short. There the mark is cleared by a
// receive that finds nothing, or the end. A write that the socket refuses sets `full_`, and the
// event that tells of room clears it.
//
// Input. Requests borrow its bytes, so nothing is received until all that was parsed is answered,
// or put aside (aside.h).
// Turns. A turn may last long (loop.h). Until it has ended (`in_turn`), the connection writes what
// is unsent of earlier turns and only remembers events. It stays at its address even if it is
// closed. Where its rows wait for something they are put aside, and its next requests come in later
// turns. Output. While more than `output_bound` bytes wait for a client that does not read, nothing
// more is parsed or received from it. Replies beyond that are written at once, so that those of
// many connections do not add up where clients read.
// End. The loop deletes it when the client has closed it, on an error, when somebody has killed its
// client (client.h), or when its protocol says so and the output is written. While CLIENT PAUSE
// holds its next command it waits for the loop, or for the client to hang up. Where there is no
// memory for what it asks, or for the answers, the client is disconnected, and what it has asked in
// this turn does not run, unless it has run already.
//
// Threads. Belongs to its loop's thread.
// Limits. Those of client_limits.h, which end the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/buffer_pool.h"
#include "net/client.h"
#include "net/client_limits.h"
#include "net/input_buffer.h"
#include "net/loop/arrival_wait.h"
#include "net/loop/aside.h"
#include "net/output.h"
#include "net/protocol.h"
#include "net/socket_events.h"

namespace isotherm::net {

class Loop;

class Connection final : public Watched, public OutputBound {
 public:
  // Takes over a connected, non-blocking socket that its loop's events watch.
  Connection(Loop& loop, BufferPool& pool, Engine& engine, int descriptor,
             std::unique_ptr<Protocol> protocol, std::unique_ptr<Client> client);
  ~Connection() { close_socket(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void on_events(uint32_t events) override;

  // The steps of a turn.
  // Parses what is left of the input, or else what the socket has; false: it takes no part in the
  // turn.
  bool parse(Turn& turn);
  // Its rows of the turn wait for something.
  void note_waiting(const Turn& turn);
  void reply(Turn& turn);
  bool waits_alone() const { return protocol_->waits_alone(); }
  // `withheld`: nothing is written until it is settled.
  void run_alone(Turn& turn, bool withheld);
  void end_alone(Turn& turn);
  bool walks() const { return protocol_->walks(); }
  void let_go() { withheld_ = false; }
  void flush();  // gathered writes
  // Writes; whether more could be written at once.
  bool sends_on() {
    flush();
    return open_ && !withheld_ && !full_ && !output_.empty();
  }
  // What comes next: another turn, an event, or the end.
  void settle(const Turn& turn);

  // Closes it where the limit on unsent replies says so.
  void check_output(const OutputLimit& limit, int64_t now_ms);
  // Of an output of its own. Replies of a client that is sure to be disconnected are not held.
  size_t most(size_t taken) override;
  size_t memory() const;

  void close();
  bool open() const { return open_; }
  // Its last requests had large replies, or it has much to send.
  bool heavy() const { return heavy_; }
  bool deletable() const { return !open_ && !queued && !waits(); }
  // For a turn.
  bool waits() const { return in_turn || !asides_.empty(); }
  // Whether all its rows of the turn are.
  bool is_answered(const Turn& turn) const;
  bool held() const { return protocol_->held(); }
  // It waits to receive a value that has no room yet beside those of others.
  bool rests() const { return rests_; }
  void go_on() { rests_ = false; }
  const Client& client() const { return *client_; }

  bool queued = false;    // in a list of its loop
  bool in_turn = false;   // from `parse` to `settle`
  bool is_ended = false;  // in its list of those to be deleted
  size_t index = 0;       // in the loop's list of connections

 private:
  bool last_words() const { return end_of_input_ || protocol_->closing(); }
  bool takes_input() const {
    if (!open_ || rests_ || last_words() || output_.size() > output_bound) return false;
    return asides_.empty() || has_room();
  }
  template <class Work>
  bool has_memory_for(const Work& work);
  void parse_in(Turn& turn);
  void reply_in(Turn& turn);
  void settle_in(bool had_turn);
  bool has_room() const;
  bool goes_on() const;
  bool put_aside();
  void reply_in_order(Turn& turn);
  void settle_behind(bool had_turn);
  const Output* unfinished() const;
  size_t unsent() const;
  bool receive(Turn& turn, bool fast);
  bool begin_rest(Turn& turn);
  bool receive_value(ArrivingItem& value);
  bool note_received(ssize_t received, size_t room);
  size_t reply_if_little(Turn& turn);
  bool write_some();
  ssize_t send_pieces();
  void close_socket();
  void count_held();
  void count_protocol(size_t bytes);
  void tell_client(bool is_held);

  Loop& loop_;
  Engine& engine_;
  const std::unique_ptr<Client> client_;
  const int descriptor_;
  std::unique_ptr<Protocol> protocol_;
  InputBuffer input_;
  Output output_;
  Asides asides_;
  OutputWatch watch_;
  ArrivalWait arrival_wait_;
  const Turn* turn_ = nullptr;  // in which it is
  Batch::Row first_row_ = 0;    // there
  Batch::Row end_row_ = 0;
  size_t protocol_bytes_ = 0;  // of the protocol's memory, that the loop knows of
  bool open_ = true;
  bool failed_ = false;    // for want of memory: nothing of it is asked any more
  bool readable_ = false;  // the socket may hold bytes, or the end
  bool filled_ = false;    // the last receive left no room
  bool hung_up_ = false;   // it will hold no more than it does
  bool waiting_ = false;   // its rows of this turn wait for something
  bool urgent_ = false;    // its client sends urgent bytes
  bool full_ = false;      // it takes no more, until an event says so
  bool parse_on_ = false;  // the input may hold complete requests
  bool end_of_input_ = false;
  bool heavy_ = false;
  bool withheld_ = false;
  bool rests_ = false;
  bool alone_walks_ = false;  // a step, in this turn
  bool owed_ = false;         // what others see says that there is output, or that it is held
};

}  // namespace isotherm::net
