// SocketClient: one thread that drives many connections to one server.
//
// Closed loop: each connection sends a window of commands (the depth of the pipeline) in one write,
// waits until all are answered, and sends the next. Open loop: commands are due at times drawn in
// advance; each goes to a connection with a free slot and waits, still due, where none has one.
// Latency runs from the sending, or from the due time, to the moment the reply is read.
//
// One epoll loop a thread and one read and one write a turn of a connection: the client shares the
// cores with the server and has to be light.
//
// Counting. A command counts where its reply comes within the measured time; in the open loop the
// latency of every command due within it is taken, also of those answered later, and those never
// answered enter with the age they had at the end. A closed loop waits for each reply, so it gives
// up where none at all comes for `patience_ns`: a server that hangs must not keep the program.
//
// Threads. `run` is the thread's body; results are read after it has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isotherm_bench/arrivals.h"
#include "isotherm_bench/codec.h"
#include "isotherm_bench/connection.h"
#include "isotherm_bench/control.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

struct SocketLoad {
  std::string host;
  uint16_t port = 0;
  WireProtocol protocol = WireProtocol::redis;
  uint32_t connections = 1;  // of this thread
  uint32_t pipeline = 1;
  double rate = 0;  // commands a second of this thread; 0: closed loop
  bool poisson = true;
  uint64_t requests = 0;  // stop after so many in the measured time; 0: when told
  int64_t patience_ns = 0;
  bool verify = false;
};

class SocketClient {
 public:
  SocketClient(const SocketLoad& load, const Workload& workload, KeySpace& keys, Control& control,
               uint64_t stream);
  ~SocketClient();

  void run();
  const Counts& counts() const { return counts_; }

 private:
  bool open_connections();
  void loop();
  // Sends what is due and returns the nanoseconds until the next is; negative: wait for replies.
  int64_t issue_due(int64_t now);
  void start_windows();

  bool issue(Connection& connection, int64_t started);
  void write_command(Connection& connection, Slot& slot, const Request& request);
  void on_event(Connection& connection, uint32_t events);
  bool take_replies(Connection& connection, int64_t now);
  void count(const Slot& slot, const ParsedReply& reply, int64_t now);
  void flush(Connection& connection);
  void lost(const Connection& connection);
  void give_up();
  bool accepts_new() const { return !exhausted_ && phase_ != Phase::stop; }
  void count_unanswered();

  const SocketLoad load_;
  const Workload& workload_;
  KeySpace& keys_;
  Control& control_;
  Requester requester_;
  std::unique_ptr<Codec> codec_;
  std::optional<Arrivals> arrivals_;
  std::vector<Connection> connections_;
  std::vector<bool> watches_writes_;
  int epoll_ = -1;
  Phase phase_ = Phase::prepare;
  bool exhausted_ = false;  // nothing more to send: the key space or the quota is at its end
  uint32_t next_connection_ = 0;
  uint64_t pending_ = 0;
  uint64_t untold_ = 0;  // answered, not yet told to control
  Counts counts_;
};

}  // namespace isotherm::bench
