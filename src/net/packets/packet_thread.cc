#include "net/packets/packet_thread.h"

#include <exception>
#include <optional>
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
  std::promise<void> begun;
  std::future<void> begins = begun.get_future();
  thread_ = std::thread([this, &begun] { run(std::move(begun)); });
  begins.get();
}

void PacketThread::stop() {
  stops_.store(true, std::memory_order_relaxed);
  frames_->end();
  if (thread_.joinable()) thread_.join();
}

void PacketThread::run(std::promise<void> begun) {
  constexpr int patience_ms = 20;
  constexpr int64_t at_once = 0;
  std::optional<StorePackets> store;
  std::optional<PacketServer> packets;
  try {
    store.emplace(server_, counters_, *server_.engine.tree(), stops_);
    packets.emplace(*device_, *frames_, *store, server_.clock, at_once);
  } catch (...) {
    return begun.set_exception(std::current_exception());
  }
  begun.set_value();
  do {
    if (packets->idle()) frames_->wait(patience_ms);
    store->wait_for_pause();
  } while (packets->turn());
}

}  // namespace isotherm::net
