// RingFrames: frames of a network interface, from a ring that the kernel fills and nobody copies
// out of (AF_PACKET, TPACKET_V3), for a server of packets (net/packets/packet_server.h).
//
//   interface ─▶ filter: UDP to the port ─▶ blocks of the ring ─▶ receive ─▶ the sink
// A block is ours from when the kernel has filled it, or a millisecond after its first frame, until
// all its frames were given away and `receive` is called once more. Where all blocks are ours the
// kernel drops frames, and counts them. Frames that leave a host by no cable have no checksum of
// UDP yet (veth, loopback, some virtual machines): it is made here.
//
// The interface keeps its addresses, and the kernel goes on answering ARP and all else. It sees the
// requests, too: a socket on the port, which takes nothing, keeps it from answering that there is
// nobody. Replies go out as frames, with the addresses of the request changed round.
//
// Threads. One; `end` from any, signal handlers included. Limits. VLANs are not looked into. A
// reply that the interface does not take at once is dropped, and counted. Errors. std::system_error
// without the right to do so (CAP_NET_RAW), the interface, or the port. Sources. MemcachedGPU,
// section 3 (GNoM: packets reach the GPU from rings of the driver's; here the kernel's are used, so
// any card will do).
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/packets/frame_source.h"
#include "net/packets/interface.h"

namespace isotherm::net {

class RingFrames final : public FrameSource {
 public:
  static constexpr uint32_t most_at_once = 64;
  static constexpr uint32_t block_bytes = 256 << 10;

  RingFrames(const std::string& interface, uint16_t port, uint32_t blocks = 64);
  ~RingFrames();
  RingFrames(const RingFrames&) = delete;
  RingFrames& operator=(const RingFrames&) = delete;

  void wait(int timeout_ms) const override;
  void end() override { ended_.store(true, std::memory_order_relaxed); }
  uint64_t memory() const override { return uint64_t{blocks_} * block_bytes; }
  uint64_t unsent() const override { return unsent_; }
  // That the kernel had no block for.
  uint64_t dropped() const override;

  uint32_t receive(uint32_t most, FrameSink& sink) override;
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }
  void send(std::string_view frame) override;
  void flush() override;

 private:
  void set(int level, int name, const void* value, socklen_t bytes) const;
  void attach_filter(uint16_t port) const;
  void map_ring(uint32_t blocks);
  bool is_ours(uint32_t block) const;
  void give_back();

  const std::string interface_;
  const int index_;
  const Descriptor ring_;
  const TakenPort port_;
  char* memory_ = nullptr;
  uint32_t blocks_ = 0;
  uint32_t block_ = 0;    // that is read
  uint32_t left_ = 0;     // of its frames
  bool is_open_ = false;  // whether it is ours
  char* next_ = nullptr;  // the header of its next frame
  std::vector<std::string> replies_ = std::vector<std::string>(most_at_once);
  uint32_t waiting_ = 0;  // of the replies
  uint64_t unsent_ = 0;
  mutable uint64_t dropped_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace isotherm::net
