// UdpFrames: frames of a UDP socket, whose headers the kernel has taken off: they are made up again
// from the addresses that it tells, and taken off the replies. So a server of packets
// (net/packets/packet_server.h) runs on any network, if not at the speed of a ring.
//
// The kernel has checked what it delivers, so that the frames of IPv4 have no UDP checksum; IPv6
// knows none without. System calls take up to `most_at_once` datagrams.
//
// Threads. One; `end` from any, signal handlers included. Limits. A reply that the socket does not
// take at once is dropped, and counted; link-local addresses of IPv6 are not answered. Errors.
// std::system_error where the address cannot be had.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/pair.h"
#include "net/packets/frame_source.h"

namespace isotherm::net {

class UdpFrames final : public FrameSource {
 public:
  static constexpr uint32_t most_at_once = 64;

  // A numeric address of either kind; port 0: the kernel chooses one.
  UdpFrames(const std::string& address, uint16_t port);
  ~UdpFrames();
  UdpFrames(const UdpFrames&) = delete;
  UdpFrames& operator=(const UdpFrames&) = delete;

  uint16_t port() const { return port_; }
  uint64_t memory() const override;
  uint64_t unsent() const override { return unsent_; }
  void wait(int timeout_ms) const override;
  void end() override { ended_.store(true, std::memory_order_relaxed); }

  uint32_t receive(uint32_t most, FrameSink& sink) override;
  bool ended() const override { return ended_.load(std::memory_order_relaxed); }
  void send(std::string_view frame) override;
  void flush() override;

 private:
  // As sockets have them.
  union Address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  struct Buffer {
    std::vector<Pair> memory;  // headers, then the datagram
    Address from{};
  };
  struct Reply {
    std::string datagram;
    Address to{};
  };

  std::string_view make_frame(Buffer& buffer, uint32_t datagram_bytes) const;
  char* datagram_of(Buffer& buffer) const;

  int descriptor_ = -1;
  bool v6_ = false;
  uint16_t port_ = 0;
  Address own_{};
  std::vector<Buffer> buffers_ = std::vector<Buffer>(most_at_once);
  std::vector<Reply> replies_ = std::vector<Reply>(most_at_once);
  uint32_t waiting_ = 0;  // of the replies
  uint64_t unsent_ = 0;
  std::atomic<bool> ended_{false};
};

}  // namespace isotherm::net
