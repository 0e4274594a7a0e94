// UdpPort: the datagrams of memcached clients that one loop serves.
//
//   socket ──recvmmsg──▶ exchange: a datagram ──parse──▶ rows of the turn's batch
//     ▲                                                        │
//     └──sendmmsg── datagrams of 1,400 bytes ◀── replies ◀───reply
//                   (sending.h)              (reply_cursor.h)
//
// Every loop has a socket of its own for each address (SO_REUSEPORT), to which the kernel gives all
// datagrams of a client. A turn takes the datagrams that are there, by one system call, and their
// requests into the same batch as those of connections; an exchange is one of them with its reply.
// A datagram may have several requests, and each has a reply of its own (reply_cursor.h). What the
// protocol leaves for another turn (net/protocol.h) is parsed in the next one, and so is what comes
// when datagrams have `most_rows` rows in this one: connections beside them wait no longer, nor do
// they for those. Commands that walk over the database are refused.
//
// Nobody is told of what is dropped, but all is counted (UdpCounters): datagrams without a header
// or a request, those longer than a buffer or that end in the middle of a request, one of several,
// those that are not of the text protocol or come from a port with the number of this one (a
// server's, whose replies would be answered for ever), and repeats (repeats.h) but of gets, which
// are answered again.
//
// How much is answered. Anybody can have replies sent to others by writing their address on a
// datagram. So what a datagram is answered takes, headers included, at most
// `memcached_udp_amplification` times its bytes, unless the address is trusted, or has a TCP
// connection to this server; if it is longer, all of it is dropped for a short error, where there
// is room for that. It is never longer than `longest_reply`.
//
// Memory. `most_exchanges` of 64 KiB each, and as much again for where replies end, of which as
// many are taken as come at once, and `most_unsent` of replies, which are dropped beyond it. While
// the socket takes no more, replies wait for it; while no exchange is free, nothing is received,
// and the kernel drops what its buffer cannot hold.
//
// Threads. Made before its loop starts; then the loop's alone.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "net/buffer_pool.h"
#include "net/loop_turn.h"
#include "net/output.h"
#include "net/protocol.h"
#include "net/server_state.h"
#include "net/socket_address.h"
#include "net/socket_events.h"
#include "net/udp/frame.h"
#include "net/udp/repeats.h"
#include "net/udp/reply_cursor.h"

namespace isotherm::net {

class UdpSending;

class UdpPort final : public Watched {
 public:
  static constexpr size_t most_exchanges = 64;
  static constexpr size_t longest_reply = 2 << 20;
  static constexpr size_t most_unsent = 16 << 20;
  // Of a turn, after which the requests of datagrams wait for the next one.
  static constexpr Batch::Row most_rows = 1 << 13;
  // Calls of 64 datagrams each that a turn sends by.
  static constexpr int most_sends = 4;

  // Throws std::system_error where somebody has the address, who would share it with the ports of
  // this server without a word.
  static void check_free(const SocketAddress& address);
  // Binds; throws std::system_error.
  UdpPort(ServerState& server, LoopCounters& counters, BufferPool& pool,
          const SocketAddress& address);
  // Sends what is unsent, unless the network takes nothing for a while.
  ~UdpPort();
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  SocketAddress address() const { return SocketAddress::local_of(descriptor_); }
  int descriptor() const { return descriptor_; }
  void on_events(uint32_t events) override;

  // The steps of a turn, as those of connections.
  bool ready() const {
    return (!again_.empty() && !held_) || (readable_ && !free_.empty()) ||
           (!full_ && !unsent_.empty());
  }
  // Receives and parses; how many datagrams have rows.
  uint64_t parse(LoopTurn& turn);
  // Of those whose rows are ready, or of all if it has `ended`.
  void reply(LoopTurn& turn, bool ended);
  // What the socket takes, by a few calls.
  void send();

  // Some requests wait for the end of a pause.
  bool held() const { return held_; }
  void release() { held_ = false; }

 private:
  // A datagram and its reply.
  struct Exchange;
  using Exchanges = std::vector<Exchange*>;

  void make_exchanges(size_t count);
  void receive(LoopTurn& turn);
  bool takes(Exchange& exchange, size_t bytes, bool cut, int64_t now_ms);
  void parse_if_room(Exchange& exchange, LoopTurn& turn);
  void parse_one(Exchange& exchange, LoopTurn& turn);
  void give_up(Exchange& exchange);
  void answer(Exchange& exchange, LoopTurn& turn);
  void reply_one(Exchange& exchange, LoopTurn& turn);
  void run_alone(Exchange& exchange, Turn& turn);
  void finish(Exchange& exchange);
  static size_t sent_bytes(Exchange& exchange);
  void bound_reply(Exchange& exchange);
  static void clear_reply(Exchange& exchange);
  void account(Exchange& exchange);
  bool is_trusted(const Exchange& exchange) const;
  void free(Exchange& exchange);
  void send_all();
  static size_t gather(Exchange& exchange, bool divides, UdpSending& sending);
  size_t note_sent(const UdpSending& sending, size_t messages, size_t done);

  ServerState& server_;
  LoopCounters& loop_counters_;
  UdpCounters& counters_;
  BufferPool& pool_;
  const int descriptor_;
  const uint16_t port_;
  const uint64_t seed_;  // of fingerprints, which nobody can foresee
  const bool divides_;   // what is sent, by the kernel
  std::vector<std::unique_ptr<Exchange>> all_;
  Exchanges free_;
  Exchanges in_turns_;
  Exchanges again_;          // whose datagram has more for the next turn
  Exchanges continued_;      // those of the last one, while they are parsed
  Exchanges unsent_;         // in the order of their sends
  size_t unsent_bytes_ = 0;  // of all replies, complete or not
  Batch::Row rows_end_ = 0;  // of the turn, for datagrams
  bool readable_ = false;
  bool full_ = false;
  bool held_ = false;
  UdpRepeats repeats_;
};

}  // namespace isotherm::net
