#include "net/packets/packet_thread.h"

#include <chrono>
#include <utility>

#include "net/packets/packet_server.h"
#include "net/packets/store_packets.h"

namespace isotherm::net {

PacketThread::PacketThread(ServerState& server, LoopCounters& counters,
                           std::unique_ptr<PacketDevice> device,
                           std::unique_ptr<FrameSource> frames)
    : server_(server),
      counters_(counters),
      device_(std::move(device)),
      frames_(std::move(frames)),
      bytes_(static_cast<int64_t>(frames_->memory() + device_->options().bytes())) {
  server_.engine.add_buffer_bytes(bytes_);
}

PacketThread::~PacketThread() {
  stop();
  server_.engine.add_buffer_bytes(-bytes_);
}

void PacketThread::start() {
  thread_ = std::thread([this] { run(); });
}

void PacketThread::stop() {
  stops_.store(true, std::memory_order_relaxed);
  frames_->end();
  if (thread_.joinable()) thread_.join();
}

void PacketThread::run() {
  constexpr int patience_ms = 20;
  StorePackets store(server_, counters_, *server_.engine.tree(), stops_);
  constexpr int64_t at_once = 0;
  PacketServer packets(*device_, *frames_, store, server_.clock, at_once);
  do {
    if (packets.idle()) frames_->wait(patience_ms);
    store.wait_for_pause();
  } while (packets.turn());
}

}  // namespace isotherm::net
