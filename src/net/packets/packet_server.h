// PacketServer: raw frames of memcached clients, answered in batches by a device, and by the CPU
// where a device does not answer them.
//
//   FrameSource ──receive──▶ slots of a channel ──▶ kernel ──▶ results, in order
//        ▲                                                        │
//        ├──────────────── replies of gets ◀──────────────────────┤ answered
//        └──────────────── replies ◀── ItemCommands ◀─────────────┘ left
//
// A batch goes when it is full, when its first frame has waited for `timeout_us`, or at the end of
// the source; the next one is filled meanwhile. Batches are looked through in the order in which
// they went, and their frames in the order in which they came.
//
// Order. The requests of a client, which is an address with a port, take effect in the order in
// which they came. A kernel answers the gets of a batch before the CPU runs what else is in it; so
// behind a request that the CPU has run for a client, answers of the device to that client are
// dropped, and the CPU gives them, up to the first batch that went after it had run. Whoever writes
// to the table otherwise is seen by batches that go after that call has returned.
//
// A reply takes several datagrams where it is longer than one, and is bounded as those of the
// device (PacketOptions::amplification); a longer one becomes a short error. Nothing is answered to
// faulty frames; they are counted. A datagram that the network delivers twice is run twice.
//
// Memory. The slots, and frames that are longer than one, of as many as the channels take.
//
// Threads. One. Errors. DeviceError, after which nothing more is answered.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/pair.h"
#include "gpu/udp/packet_device.h"
#include "net/packets/frame_source.h"
#include "net/packets/item_commands.h"

namespace isotherm::net {

struct PacketCounts {
  uint64_t received = 0;
  uint64_t batches = 0;
  uint64_t by_device = 0;  // answers
  uint64_t by_cpu = 0;     // requests that it ran
  uint64_t overtaken = 0;  // of those, gets that the device had answered too early
  uint64_t too_long = 0;   // replies, for the address of their client
  std::array<uint64_t, frame_kinds> dropped{};  // by their kind
};

class PacketServer final : private FrameSink {
 public:
  PacketServer(PacketDevice& device, FrameSource& source, const Clock& clock, int64_t timeout_us);
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
    bool under_way = false;
    std::vector<std::pair<uint32_t, std::string>> longer;  // frames that no slot takes, by row
  };
  static constexpr uint32_t client_slots = 4096;

  void take(std::string_view frame) override;
  void fill();
  void start();
  bool finish_oldest(bool waits);
  void answer(const Channel& channel, const PacketSlots& slots, uint32_t row,
              std::string_view frame);
  void run(const RequestFrame& request, std::string_view frame);
  void send(const RequestFrame& request, std::string_view frame, std::string_view text);
  uint64_t& ran_at(std::string_view frame, const RequestFrame& request);

  PacketDevice& device_;
  FrameSource& source_;
  const Clock& clock_;
  const int64_t timeout_us_;
  ItemCommands commands_;
  std::vector<Channel> channels_;
  uint32_t filled_ = 0;  // the channel
  uint32_t oldest_ = 0;  // that is under way
  uint64_t batches_ = 0;
  // The last batch that had gone when the CPU ran a request of the client. Clients that share a
  // slot are taken for one, which costs time only.
  std::vector<uint64_t> ran_at_ = std::vector<uint64_t>(client_slots);
  std::string reply_;
  std::vector<Pair> packet_;  // a frame being built, which begins at an even address
  PacketCounts counts_;
};

}  // namespace isotherm::net
