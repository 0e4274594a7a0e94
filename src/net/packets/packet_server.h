// PacketServer: raw frames of memcached clients, answered in batches by a device, and by the CPU
// where a device does not answer them.
//
//   FrameSource ──receive──▶ slots of a channel ──▶ kernel ──▶ results, in order
//        ▲                                                        │
//        ├──────────────── replies of gets ◀──────────────────────┤ answered, and the newest
//        └──────────────── replies ◀── PacketStore ◀──────────────┘ left
//
// A batch goes when it is full, when its first frame has waited for `timeout_us`, or at the end of
// the source; the next one is filled meanwhile. Batches are looked through in the order in which
// they went, and their frames in the order in which they came. What the CPU is to run of a batch
// runs together.
//
// Order. The requests of a client, which is an address with a port, take effect in the order in
// which they came. A kernel answers the gets of a batch before the CPU runs what else is in it; so
// behind a request that the device has left for a client, its answers to that client are dropped,
// and the CPU gives them, up to the first batch that went after it had run. Whoever changes items
// otherwise may have done so since the batch went: the store is asked whether an answer is still
// what it has (net/packets/packet_store.h), and if not the CPU answers. Then another get of the
// client may be answered before it, by the device, but none of the same key.
//
// Without a device, once it has failed, the CPU answers all, if the store can.
//
// Fragments are put together (net/packets/reassembly.h): the request is as if it had come whole
// with the last of them, and is the CPU's.
//
// A reply takes several datagrams where it is longer than one, and is bounded as those of the
// device (PacketOptions::amplification); a longer one becomes a short error. Nothing is answered to
// faulty frames; they are counted. A datagram that the network delivers twice is run twice.
//
// Frames that lie in memory of the source's which the device can read stay there, and are released
// when their batch has been looked through; others are copied into slots.
//
// Memory. The slots, frames that are longer than one, of as many as the channels take, and
// fragments.
//
// Threads. One. Errors. What the store throws.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/pair.h"
#include "gpu/udp/packet_device.h"
#include "net/packets/frame_source.h"
#include "net/packets/packet_store.h"
#include "net/packets/reassembly.h"

namespace isotherm::net {

struct PacketCounts {
  uint64_t received = 0;
  uint64_t batches = 0;
  uint64_t bytes_in = 0;   // of datagrams
  uint64_t bytes_out = 0;  // and of those of replies
  uint64_t sent = 0;
  uint64_t by_device = 0;  // answers
  uint64_t hits = 0;       // of these
  uint64_t by_cpu = 0;     // requests that it ran
  uint64_t overtaken = 0;  // of those, gets that the device had answered too early
  uint64_t changed = 0;    // and gets of what others had changed, or may have
  uint64_t too_long = 0;   // replies, for the address of their client
  uint64_t unsent = 0;     // and that could not be sent, or for which there was no memory
  uint64_t missed = 0;     // frames, of which the source knows only that
  uint64_t fragments = 0;  // frames that were such
  uint64_t joined = 0;     // and datagrams that they became
  std::array<uint64_t, frame_kinds> dropped{};  // by their kind
};

class PacketServer final : private FrameSink {
 public:
  PacketServer(PacketDevice& device, FrameSource& source, PacketStore& store, const Clock& clock,
               int64_t timeout_us);
  // Batches under way are awaited, as their slots are the device's.
  ~PacketServer();
  PacketServer(const PacketServer&) = delete;
  PacketServer& operator=(const PacketServer&) = delete;

  // Receives, starts and answers what can be without waiting. False when the source has ended and
  // all is answered.
  bool turn();
  // Whether nothing is under way nor waits to go, so that the caller may wait for frames.
  bool idle() const { return channels_[oldest_].rows == 0; }
  const PacketCounts& counts() const { return counts_; }

 private:
  struct Channel {
    uint32_t rows = 0;
    int64_t began_us = 0;  // when its first frame came
    uint64_t number = 0;   // of its batch
    uint64_t begun = 0;    // what the device had then
    bool under_way = false;
    std::vector<std::pair<uint32_t, std::string>> longer;  // frames that no slot takes, by row
  };
  // That the CPU answers.
  struct Left {
    RequestFrame request;
    std::string_view frame;
  };
  static constexpr uint32_t client_slots = 4096;

  void take(std::string_view frame) override;
  template <class Work>
  void unless_lost(const Work& work);
  void fill();
  void start();
  bool has_ended(bool waits);
  bool finish_oldest(bool waits);
  void release(const Channel& channel, const PacketSlots& slots);
  void look_at(const Channel& channel, const PacketSlots& slots, uint32_t row,
               std::string_view frame);
  void put_together(const Channel& channel, const PacketSlots& slots, uint32_t row,
                    std::string_view frame);
  void run_left();
  void bound(PacketAsk& ask);
  void send(const Left& left, const PacketAsk& ask);
  void lose_device(const std::string& why);

  PacketDevice& device_;
  FrameSource& source_;
  PacketStore& store_;
  const Clock& clock_;
  const int64_t timeout_us_;
  const bool lent_;    // the source's memory, to the device
  bool lost_ = false;  // the device
  std::vector<Channel> channels_;
  uint32_t filled_ = 0;  // the channel
  uint32_t oldest_ = 0;  // that is under way
  uint64_t batches_ = 0;
  // The last batch that had gone when a request of the client was left. Clients that share a slot
  // are taken for one, which costs time only.
  std::vector<uint64_t> left_at_ = std::vector<uint64_t>(client_slots);
  std::vector<Left> left_;  // of the batch that is looked through
  Reassembly reassembly_;
  std::deque<std::string> whole_;  // frames of the batch that were fragments
  std::vector<PacketAsk> asks_;
  std::vector<Pair> packet_;   // a frame being built, which begins at an even address
  uint64_t lost_replies_ = 0;  // for want of memory
  PacketCounts counts_;
};

}  // namespace isotherm::net
