// XdpFrames: frames of a network interface that the kernel has not seen (AF_XDP), for a server of
// packets (net/packets/packet_server.h): a program in the driver hands them over
// (net/packets/xdp_program.h), and where the driver can, the card writes them where they are read.
//
//   card ─▶ program: UDP to the port ─▶ chunks of a queue ─▶ receive ─▶ the sink ─▶ release
//                  └─▶ all else: the kernel
// One piece of memory, on huge pages where there are some, is cut into chunks, each for one frame.
// `chunks` of them belong to each queue of the interface, and are in its rings or with whoever got
// the frame, until he releases it; `replies` more are for what is sent, shared out among the queues
// that send. The address and port of the client say by which queue his replies go, so they keep
// their order. So no ring is ever full. Without a free chunk the kernel drops the frame, and counts
// it.
//
// The driver decides whether frames are copied on the way (`way` says it); all of them must be
// where the program does not run in the driver. Frames of interfaces without cables have no
// checksum of UDP (net/packets/interface.h): where frames are copied it is made here.
//
// The interface keeps its addresses, the kernel goes on answering ARP and all else, and when the
// process ends, however it does, all is as it was before. The port is taken in the kernel, too, so
// that what does not come this way is not refused. Replies go out as frames, with the addresses of
// the request changed round.
//
// Threads. One; `end` from any, signal handlers included. Limits. All queues that the interface has
// when this is made. A frame has at most 3,840 bytes; drivers mostly want an MTU below a page.
// VLANs are not looked into. Replies beyond a queue's share of `replies` that the interface
// has not taken yet are dropped, and counted. Errors. std::system_error without the right to do so
// (root), the interface, or the port; std::bad_alloc. Sources. MemcachedGPU, section 3 (GNoM).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "items/huge_block.h"
#include "net/packets/frame_source.h"
#include "net/packets/interface.h"
#include "net/packets/xdp_program.h"
#include "net/packets/xdp_socket.h"

namespace isotherm::net {

class XdpFrames final : public FrameSource {
 public:
  static constexpr uint32_t replies = 1024;
  static constexpr uint32_t most_sending = 16;  // queues

  // `chunks`, a power of two, for each queue; 0: 4,096, less where there are more than four queues,
  // and 512 at least.
  XdpFrames(const std::string& interface, uint16_t port, uint32_t chunks = 0);
  XdpFrames(const XdpFrames&) = delete;
  XdpFrames& operator=(const XdpFrames&) = delete;

  // Who copies frames, where the program is, and how many queues there are.
  std::string way() const override;
  // That found no free chunk, or were too long.
  uint64_t dropped() const override;

  std::span<char> area() const override { return {memory_.data(), memory_.bytes()}; }
  uint32_t receive(uint32_t most, FrameSink& sink) override;
  void release(std::string_view frame) override;
  void wait(int timeout_ms) const override;
  void end() override { ended_.store(true, std::memory_order_relaxed); }
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }
  void send(std::string_view frame) override;
  void flush() override;
  uint64_t memory() const override { return memory_.bytes(); }
  uint64_t unsent() const override { return unsent_; }

 private:
  struct Queue {
    template <class From>
    Queue(const From& from, const XdpSocket::Rings& rings) : socket(from, rings) {}

    XdpSocket socket;
    std::vector<uint64_t> free;     // chunks that were released
    std::vector<uint64_t> replies;  // chunks for what is sent, that are free
  };
  // Of an interface.
  struct QueueCounts {
    uint32_t receiving = 1;
    uint32_t sending = 1;
  };

  static QueueCounts count_queues(const std::string& interface);
  void open(Queue& queue, uint32_t number);
  static void refill(Queue& queue);
  uint32_t receive(Queue& queue, uint32_t most, FrameSink& sink);
  static void flush(Queue& queue);

  const int index_;
  const QueueCounts counts_;
  const uint32_t queue_count_;
  const uint32_t sending_;  // of these, the first so many send, too
  const uint32_t replies_of_each_;
  const uint32_t chunks_;
  const TakenPort port_;
  HugeBlock memory_;
  XdpProgram program_;
  std::vector<std::unique_ptr<Queue>> queues_;
  bool zero_copy_ = false;
  uint32_t next_queue_ = 0;  // that is asked first
  uint64_t unsent_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace isotherm::net
