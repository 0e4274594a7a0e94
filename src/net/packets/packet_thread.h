// PacketThread: a thread that answers the frames of a source from the items of a server, those that
// live on a GPU by that (net/packets/packet_server.h, net/packets/store_packets.h).
//
// Frames that have come go at once as long as a channel is free; the more come meanwhile, the
// larger is the next batch. While one is under way, the thread looks for its end all the time; else
// it sleeps until frames come. While clients are paused it takes none.
//
// Memory. That of the source, and of the device's slots: the engine is told of it.
//
// Threads. `start` and `stop` belong to the owner's.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "gpu/udp/packet_device.h"
#include "net/packets/frame_source.h"
#include "net/server_state.h"

namespace isotherm::net {

class PacketThread {
 public:
  // Of a server whose items live on a GPU that `device` belongs to.
  PacketThread(ServerState& server, LoopCounters& counters, std::unique_ptr<PacketDevice> device,
               std::unique_ptr<FrameSource> frames);
  ~PacketThread();
  PacketThread(const PacketThread&) = delete;
  PacketThread& operator=(const PacketThread&) = delete;

  // Throws what the thread does where it cannot begin.
  void start();
  // Answers what was received.
  void stop();

 private:
  void run(std::promise<void> begun);

  ServerState& server_;
  LoopCounters& counters_;
  const std::unique_ptr<PacketDevice> device_;
  const std::unique_ptr<FrameSource> frames_;
  const int64_t bytes_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace isotherm::net
