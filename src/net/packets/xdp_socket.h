// XdpSocket: a socket of AF_XDP on one queue of an interface, with its rings
// (net/packets/xdp_ring.h). Frames lie in chunks of one piece of memory, which all sockets of an
// interface share, and which entries of rings name by their places in it:
//
//   fill ──▶ the kernel or the card writes a frame ──▶ received
//   to_send ──▶ it is sent ──▶ sent
// Each ring has room for all chunks that may be in it at once: so none is ever full.
//
// Threads. One at a time. Limits. Linux 5.10 where an interface has several queues. Errors.
// std::system_error.
#pragma once

#include <linux/if_xdp.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/packets/interface.h"
#include "net/packets/xdp_ring.h"

namespace isotherm::net {

class XdpSocket {
 public:
  static constexpr uint32_t chunk_bytes = 4096;

  struct Rings {
    uint32_t receives = 0;  // entries of `fill` and `received`, a power of two
    uint32_t sends = 0;     // and of `to_send` and `sent`; 0: there are none
  };

  // The first one of an interface, which has the memory, begun at a page; or one that shares that
  // of the first.
  XdpSocket(std::span<char> memory, const Rings& rings);
  XdpSocket(const XdpSocket& first, const Rings& rings);
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  // When `fill` has chunks. The first one says whether frames are always copied; if not, they are
  // only where the driver cannot do without.
  void bind(int interface, uint32_t queue, bool copies);
  // Whether the card writes frames where they are read.
  bool is_zero_copy() const;
  int number() const { return socket_.number(); }
  // Makes the kernel go on.
  void wake_receiver() const;
  // False: it will take nothing now.
  bool wake_sender() const;
  xdp_statistics statistics() const;

  XdpRing<uint64_t> fill;
  XdpRing<xdp_desc> received;
  XdpRing<xdp_desc> to_send;
  XdpRing<uint64_t> sent;

 private:
  class Mapping {
   public:
    Mapping() = default;
    Mapping(int socket, uint64_t ring, uint64_t bytes);
    ~Mapping();
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    char* data() const { return data_; }

   private:
    char* data_ = nullptr;
    uint64_t bytes_ = 0;
  };

  void make_rings(const Rings& rings);
  void set(int name, const void* value, uint32_t bytes) const;
  void get(int name, void* value, uint32_t bytes) const;
  template <class Entry>
  XdpRing<Entry> map(Mapping& mapping, uint64_t ring, const xdp_ring_offset& at, uint32_t size);

  const Descriptor socket_;
  const int first_ = -1;
  Mapping fill_memory_, received_memory_, to_send_memory_, sent_memory_;
};

}  // namespace isotherm::net
