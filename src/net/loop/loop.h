// Loop: one thread that serves its share of the connections, a turn at a time.
//
// A turn:
//   1. wait for events, by one system call (socket_events.h), which put connections into `ready_`;
//   2. receive from every ready connection, and parse it into the one batch while its bytes are in
//      the cache; past `batch_rows_per_turn` the rest waits for the next turn. The turn's time is
//      taken after the last receive, so it is never behind what a client could have read before
//      it sent;
//   3. start the batch. With the index on the host it has ended then; with a device it may be under
//      way, and others wake the loop when more of it is ready;
//   4. write every reply into its connection's output, then clear the batch: nothing the store gave
//      is held while a socket is written. Where some rows wait for long, connections whose rows are
//      all ready get their answers before;
//   5. gathered writes, mostly one per connection;
//   6. commands that run alone, in a turn of their own: those that walk over a database have a row
//      in it, a bounded step. Where replies may have to wait until changes are safe
//      (executor/commit_sink.h), such a turn is begun without rows, too, and they are written when
//      it has ended;
//   7. a bounded step of the store's background work, or a nudge for those who do it.
//
// Turns under way. There may be several (loop_turn.h), each with a batch and connections of its
// own, so nobody waits for a slow row but its connection. What a connection sends meanwhile stays
// in its socket, unless one of its rows waits for something: then what it has asked is put aside
// (aside.h), and it takes part in later turns, within bounds. While a batch finds no place in the
// engine's queue, or too many turns are under way, no turn begins: nothing is read from sockets.
//
// So that clients with large replies keep nobody waiting for long, a turn writes about
// `reply_bytes_per_turn` into outputs and sends about `sent_bytes_per_turn` of large ones; what it
// has read beyond that is read again in later turns, each of which takes `heavy_per_turn` of the
// connections that have such replies, one after the other. Who asks for little is answered, and
// sent its answer, in the turn that reads the request, however much the others get.
// While background work or unparsed input is left, the loop looks for events instead of waiting.
// What other threads post runs when somebody woke the loop. Ten times a second the loop wakes by
// itself, for what was left until then (`at_tick`) and for background work.
//
// Memory. After some turns have warmed it up, a turn allocates nothing. Where it finds none for a
// client, that one is disconnected (connection.h); the lists of connections have places for all.
// What else it lacks memory for is tried again. Buffers and the batch are reported to the engine.
// Where all loops' buffers pass their bound (client_limits.h), or would with what an input is about
// to take, a loop that has more than its share disconnects those of its clients that hold most. It
// looks whenever it holds 64 KiB more than at its last look, also in the middle of a turn, so the
// bound is passed by less than 2 MiB a loop, and by one reply of those that each are writing.
//
// Threads. `post`, `adopt`, `stop` and those of LoopControl may be called by any thread;
// all else is the loop's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "net/buffer_pool.h"
#include "net/loop/connection.h"
#include "net/loop/posted.h"
#include "net/loop_control.h"
#include "net/loop_turn.h"
#include "net/server_state.h"
#include "net/socket_events.h"
#include "net/udp/port.h"

namespace isotherm::net {

class Loop final : public LoopControl {
 public:
  static constexpr Batch::Row batch_rows_per_turn = 1 << 16;
  static constexpr size_t reply_bytes_per_turn = 8 << 20;
  static constexpr size_t sent_bytes_per_turn = 8 << 20;
  static constexpr size_t heavy_per_turn = 16;
  static constexpr size_t walks_per_turn = 4;
  static constexpr size_t unreported = 64 << 10;

  Loop(ServerState& server, LoopCounters& counters);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Takes what the thread needs, or throws std::bad_alloc; then the thread.
  void prepare();
  void start();
  void stop();  // asks the thread to end its turn, close its connections and return
  void join();

  // Takes over a connected, non-blocking socket.
  void adopt(int descriptor, Speaks speaks);
  // Serves the datagrams of an address, with its own socket. Before the loop starts; returns the
  // address, whose port the kernel may have chosen. Throws std::system_error.
  SocketAddress serve_datagrams(const SocketAddress& address);
  void close_killed() override;
  void release_held() override;
  void bound_memory() override { evict_clients(0); }
  void post(std::function<void()> function) override {
    posted_.add(std::move(function));
    events_.wake();
  }
  // The same in a tenth of a second at the latest.
  void at_tick(std::function<void()> function) { at_tick_.add(std::move(function)); }

  SocketEvents& events() { return events_; }

  // For connections.
  void ready(Connection& connection);
  void ended(Connection& connection);
  // A connection has written so many bytes, of which so many are unsent.
  void wrote_reply(Turn& turn, size_t bytes, size_t unsent) {
    reply_bytes_ += bytes;
    if (reply_bytes_ > reply_bytes_per_turn) turn.full_output = 0;
    if (unsent > output_bound || grows_seen(0)) report_memory();
  }
  // Whether replies go out one by one, so that few are held that their clients would take.
  bool is_crowded() const { return crowded_; }
  // How much a reply that is being written may take, of which there is so much. All that loops are
  // writing is together no more than what all clients may hold, but a loop may write its share.
  size_t most_unsent(size_t taken, bool evictable);
  // Whether an input may take so many bytes more. If not, it asks again in the next turn,
  // before which clients that hold most are disconnected.
  bool lets_grow(size_t bytes) {
    return (wanted_by_input_ == 0 && !grows_seen(bytes)) || std::exchange(grows_anyway_, false) ||
           fits_clients(bytes);
  }
  void sent(size_t bytes) {
    counters_[LoopCount::bytes_out].add(bytes);
    sent_bytes_ += bytes;
  }
  // Whether connections may put aside what waits: turns are left for others.
  bool lets_go_on() const { return under_way_.size() < Worker::most_under_way / 2; }
  bool sent_its_share() const { return sent_bytes_ > sent_bytes_per_turn; }
  void count_protocols(int64_t more) { protocol_bytes_ += more; }
  void holds_some() { holds_some_ = true; }
  // A connection rests until values are stored that others send now.
  void rests_some();
  LoopCounters& counters() { return counters_; }
  const ClientLimits& limits() const { return server_.limits; }

 private:
  void run();
  void wait(bool work_is_left);
  void turn();
  LoopTurn& spare_turn();
  void trim_turns();
  bool may_begin() const;
  bool has_requests() const { return !ready_.empty() || has_datagrams(); }
  bool has_datagrams() const;
  size_t held() const { return pool_.memory() + static_cast<size_t>(protocol_bytes_); }
  // Whether buffers are worth a look with so many bytes more.
  bool grows_seen(size_t bytes) const { return held() + bytes > unseen_to_; }
  bool has_next() const { return has_requests() || (!alone_.empty() && !walks_under_way_); }
  bool is_idle() const { return under_way_.empty() && refused_ == nullptr; }
  void begin_turn();
  void parse_ready(LoopTurn& turn);
  void start_batch(LoopTurn& turn);
  void look_at_turns();
  void answer_ready(LoopTurn& turn, bool others_wait);
  void end_turn(LoopTurn& turn);
  void write_replies(LoopTurn& turn, const std::vector<Connection*>& to);
  void settle(Connection& connection, LoopTurn& turn);
  void send_datagrams();
  bool proves_addresses() const {
    return server_.memcached_udp_port != 0 || server_.memcached_packets_port != 0;
  }
  void run_those_alone();
  void delete_ended();
  void trim_pool();
  bool count_memory();
  void report_memory() {
    if (count_memory()) bound_memory();
  }
  bool fits_clients(size_t bytes);
  bool evict_clients(size_t more);
  void make_room_for_inputs();
  void note_being_written(size_t bytes);
  void watch_all_clients();
  void bound_resident();
  void look_after();
  void flush_if_due();
  void add_flush(LoopTurn& turn, int64_t now_ms);
  void check_outputs();
  void release_if_over();
  void release_all_held();
  void release_resting();
  void release_resting_if_room();
  void close_idle();
  void welcome(int descriptor, Speaks speaks);
  std::unique_ptr<Client> make_client(int descriptor, Speaks speaks);
  void make_places(size_t connections);
  void close_all();

  ServerState& server_;
  LoopCounters& counters_;
  Posted posted_;
  Posted at_tick_;
  SocketEvents events_;
  std::thread thread_;
  bool stopping_ = false;

  BufferPool pool_;
  CopyRation copies_;
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<LoopTurn>> turns_;  // all
  std::vector<LoopTurn*> spare_turns_;
  size_t unneeded_turns_ = 0;  // of these, since they were trimmed
  std::vector<LoopTurn*> under_way_;
  LoopTurn* refused_ = nullptr;     // parsed, but its batch is not started yet
  LoopTurn* flushing_ = nullptr;    // its batch begins with a flush that was due
  std::vector<Connection*> alone_;  // that wait with a command that runs alone
  bool walks_under_way_ = false;    // steps of some
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<UdpPort>> udp_ports_;
  int64_t now_ms_ = 0;                 // of the last turn
  std::vector<Connection*> ready_;     // to be parsed
  std::vector<Connection*> ended_;     // to be deleted
  std::vector<Connection*> answered_;  // of a turn that is still under way
  int64_t protocol_bytes_ = 0;         // that protocols hold
  size_t reply_bytes_ = 0;             // in this turn
  size_t being_written_ = 0;           // of the reply that is written now, if that is a large one
  size_t sent_bytes_ = 0;              // since the last look for events
  size_t replied_first_ = 0;           // counts up
  bool holds_some_ = false;            // connections that wait for the end of a pause
  bool rests_some_ = false;            // connections, until there is room for their values
  uint64_t rested_at_ = 0;             // bytes of others' values then
  size_t reported_bytes_ = 0;
  size_t unseen_to_ = 0;        // `held` may grow up to here before all is counted again
  bool crowded_ = false;        // half the loop's share of all clients' memory is taken
  size_t wanted_by_input_ = 0;  // bytes that one may not take in this turn
  bool grows_anyway_ = false;   // one does in this turn: nobody could be disconnected
  uint64_t watched_bytes_ = 0;  // of all clients, when they were last over their bound
};

}  // namespace isotherm::net
