// StorePackets: the items of a server, as a server of packets answers from them
// (net/packets/packet_store.h): those that its other clients change. For a store whose items live
// on a GPU.
//
// Answers of the device count as Tree::is_newest says. Not while a flush_all is due, nor while gets
// are counted by prefix (`stats detail`). What the device does not answer is run as datagrams of
// net/udp/port.h are: by the protocol of memcached's connections, in batches of the engine, with
// the same rules for repeats, lengths and trust; so all it says of requests holds here. Datagrams
// with one row each share a batch; one with more is the last of its batch, so that what it could
// not answer at once goes on before any behind it.
//
// Memory. `most_unsent` of replies, which are dropped beyond it.
//
// Threads. One, in which it is made; another says when it is to stop. Limits. While requests wait
// for a disk, or for the end of a pause (CLIENT PAUSE), all behind them do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "net/buffer_pool.h"
#include "net/copy_ration.h"
#include "net/packets/packet_server.h"
#include "net/packets/packet_store.h"
#include "net/protocol.h"
#include "net/server_state.h"
#include "net/udp/repeats.h"
#include "tree/tree.h"

namespace isotherm::net {

class StorePackets final : public PacketStore {
 public:
  static constexpr size_t most_at_once = 256;  // datagrams
  static constexpr size_t longest_reply = 2 << 20;
  static constexpr size_t most_unsent = 16 << 20;

  // `counters`: of this thread. `stops`: nothing waits for the end of a pause any more.
  StorePackets(ServerState& server, LoopCounters& counters, Tree& tree,
               const std::atomic<bool>& stops);
  ~StorePackets();
  StorePackets(const StorePackets&) = delete;
  StorePackets& operator=(const StorePackets&) = delete;

  // As long as all clients of memcached are to wait.
  void wait_for_pause() const;

  uint64_t begin_batch() override { return tree_.on_device(); }
  bool is_newest(uint64_t begun, std::string_view key, bool found) override;
  void run(std::span<PacketAsk> asks, int64_t now_ms) override;
  bool is_trusted(const PacketAsk& ask) const override;
  void note(const PacketCounts& counts) override;
  void lose_device(const std::string& why) override { tree_.lose_files(why); }

 private:
  // A datagram on its way.
  struct Exchange;

  size_t run_some(std::span<PacketAsk> asks);
  void give_up();
  bool is_repeat(const PacketAsk& ask);
  bool parse(Exchange& exchange, const PacketAsk& ask);
  void submit(size_t datagrams);
  bool reply(Exchange& exchange, PacketAsk& ask);
  void run_alone(Exchange& exchange, const PacketAsk& ask);
  void finish(Exchange& exchange, PacketAsk& ask);

  ServerState& server_;
  LoopCounters& counters_;
  Tree& tree_;
  const std::atomic<bool>& stops_;
  Worker worker_;
  CopyRation copies_;
  Batch batch_;
  Turn turn_;
  BufferPool pool_;
  size_t reply_bytes_ = 0;  // of what is run now
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  UdpRepeats repeats_;
  const uint64_t seed_;  // of fingerprints, which nobody can foresee
  PacketCounts noted_;
};

}  // namespace isotherm::net
