// Server: a store with its network side, in one object.
//
// It owns the engine, one loop a thread, the listening sockets and who answers frames, and works
// the same in the server program and inside a test, which gives it ports of 0 and a clock it turns
// by hand.
//
// Threads. `fill`, `serve`, `start`, `stop` and the destructor belong to the owner's thread; the
// ports may be read by any thread once `start` has returned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "db/stored_journal.h"
#include "engine/engine.h"
#include "net/loop/listener.h"
#include "net/loop/loop.h"
#include "net/packets/packet_thread.h"
#include "net/server_options.h"
#include "net/server_state.h"
#include "server/journal_rewriter.h"
#include "server/saver.h"

namespace isotherm {

class Server {
 public:
  // The clock must outlive the server. Throws std::invalid_argument for options out of range.
  Server(const net::ServerOptions& options, const Clock& clock);
  // With an index on a device of the caller's; for tests.
  Server(const net::ServerOptions& options, const Clock& clock, const RootTiersMaker& make_index);
  Server(const net::ServerOptions& options, const Clock& clock, const ItemTierMaker& make_items);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Has the store as the journal and its base tell, or without one as the snapshot does. Throws
  // JournalError or RdbError.
  void fill(Files& files = system_files());
  // Listens on all addresses and starts the threads. Throws std::system_error, naming the address.
  void serve();
  // Both.
  void start(Files& files = system_files());
  // Answers what was read, closes all connections and ends the threads. Again: does nothing.
  void stop();
  // Before the end, as SHUTDOWN or a signal wants it: writes a snapshot where there are save points
  // or it was asked for, and what a tree without a journal lacks, while nobody's requests run.
  // False: one of them could not be written, so the server is to go on. Behind `stop`, `save_rest`
  // does so once more, for requests that have run since. False: something is lost, though nobody
  // has said that it may be (SHUTDOWN FORCE or NOSAVE).
  bool prepare_end();
  // Why the last call said so, as the log has it.
  const std::string& why_it_goes_on() const { return why_it_goes_on_; }
  bool save_rest();

  // The ports in use; 0: off.
  uint16_t resp_port() const { return state_.resp_port; }
  uint16_t memcached_port() const { return state_.memcached_port; }
  uint16_t memcached_udp_port() const { return state_.memcached_udp_port; }
  uint16_t memcached_packets_port() const { return state_.memcached_packets_port; }

  // What it listens on, a line each: "resp 127.0.0.1:6379".
  const std::vector<std::string>& listening() const { return listening_; }

  const net::ServerOptions& options() const { return options_; }
  Engine& engine() { return engine_; }
  net::ServerState& state() { return state_; }

 private:
  void make_loops();
  void open_journal(Files& files);
  void do_without_journal(const Tree& tree) const;
  void release_held();
  Tree* tree_to_save();
  std::string save();
  std::string what_is_lost_then() const;
  uint16_t listen(int32_t port, net::Speaks speaks);
  void listen_on_path(const std::string& path, uint32_t mode, net::Speaks speaks);
  uint16_t serve_datagrams(int32_t port);
  void serve_packets();

  const net::ServerOptions options_;
  Engine engine_;
  net::ServerState state_;
  std::unique_ptr<Saver> saver_;  // behind whom it may have as a sink
  std::unique_ptr<StoredJournal> journal_;
  std::unique_ptr<JournalRewriter> rewriter_;
  bool saves_at_end_ = false;
  bool wants_snapshot_ = false;  // somebody has asked for that, not save points
  std::string why_it_goes_on_;
  bool may_lose_ = false;
  std::vector<std::unique_ptr<net::Loop>> loops_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::unique_ptr<net::PacketThread> packets_;
  std::vector<std::string> listening_;
  bool running_ = false;
};

}  // namespace isotherm
