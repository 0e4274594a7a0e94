// UdpFrames: frames of a UDP socket, whose headers the kernel has taken off: they are made up again
// from the addresses that it tells, and taken off the replies. So a server of packets
// (net/packets/packet_server.h) runs on any network, if not at the speed of a ring.
//
// The kernel has checked what it delivers, so that the frames of IPv4 have no UDP checksum; IPv6
// knows none without. System calls take up to `most_at_once` datagrams; replies to one client among
// these go through the kernel together (net/udp/sending.h), so clients may get theirs in another
// order than they asked, but each its own in order.
//
// Threads. One; `end` from any, signal handlers included. Limits. A reply that the socket does not
// take at once is dropped, and counted; link-local addresses of IPv6 are not answered. Errors.
// std::system_error where the address cannot be had.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/pair.h"
#include "net/packets/frame_source.h"
#include "net/socket_address.h"
#include "net/udp/sending.h"

namespace isotherm::net {

class UdpFrames final : public FrameSource {
 public:
  static constexpr uint32_t most_at_once = UdpSending::most;

  // A numeric address of either kind; port 0: the kernel chooses one.
  UdpFrames(const std::string& address, uint16_t port);
  ~UdpFrames();
  UdpFrames(const UdpFrames&) = delete;
  UdpFrames& operator=(const UdpFrames&) = delete;

  uint16_t port() const { return own_.port(); }
  uint64_t memory() const override;
  uint64_t unsent() const override { return unsent_; }
  void wait(int timeout_ms) const override;
  void end() override { ended_.store(true, std::memory_order_relaxed); }

  uint32_t receive(uint32_t most, FrameSink& sink) override;
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }
  void send(std::string_view frame) override;
  void flush() override;

 private:
  struct Buffer {
    std::vector<Pair> memory;  // headers, then the datagram
    SocketAddress from;
  };
  struct Reply {
    std::string datagram;
    SocketAddress to;
  };

  std::string_view make_frame(Buffer& buffer, uint32_t datagram_bytes) const;
  char* datagram_of(Buffer& buffer) const;
  void put_in_order();
  void gather(uint32_t first, bool divides, UdpSending& sending) const;

  int descriptor_ = -1;
  SocketAddress own_;
  bool v6_ = false;
  bool divides_ = false;  // the kernel, messages
  std::vector<Buffer> buffers_ = std::vector<Buffer>(most_at_once);
  std::array<iovec, most_at_once> pieces_;      // the places of datagrams in these
  std::array<mmsghdr, most_at_once> messages_;  // as the kernel is to fill them
  std::vector<Reply> replies_ = std::vector<Reply>(most_at_once);
  uint32_t waiting_ = 0;                      // of the replies
  std::array<uint64_t, most_at_once> order_;  // in which they go: of their clients, and of each
  uint64_t unsent_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace isotherm::net
