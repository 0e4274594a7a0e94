// XdpProgram: a program that the kernel runs for each frame of an interface before all else, and
// that hands UDP to one port to sockets (AF_XDP), one for each queue. All else goes on to the
// kernel as if it were not there: ARP, other ports and protocols, tagged frames, and what comes to
// queues without a socket.
//
// Only the first fragment of a datagram says which port it is for. So the program remembers the
// sender, the receiver and the number of those for the port, `most_fragmented` of them, the longest
// unused going first, and hands over what comes of the same datagram; a fragment that overtakes the
// first one is the kernel's. It looks at no address, so it takes what a host would forward, too.
//
// It is a few instructions, assembled here (no compiler and no file of code is needed), and is the
// interface's as long as the descriptor of the link is open: it goes with the process, however that
// ends. It runs in the driver where that can do so, else behind it.
//
// Threads. One. Errors. std::system_error: without the right to do so (root, or CAP_BPF with
// CAP_NET_ADMIN), and where the interface has another program. Limits. Linux 5.9.
#pragma once

#include <cstdint>
#include <string>

#include "net/packets/interface.h"

namespace isotherm::net {

class XdpProgram {
 public:
  static constexpr uint32_t most_fragmented = 4096;

  // Not the interface's yet.
  XdpProgram(uint16_t port, uint32_t queues);

  void attach(const std::string& interface);
  // Whether it runs in the driver; before `attach` it does not.
  bool in_driver() const { return in_driver_; }
  // From now on the socket gets what comes to this queue, for which it must be bound.
  void add(uint32_t queue, int socket);
  int number() const { return program_.number(); }

 private:
  int link_to(int interface, uint32_t mode) const;

  const Descriptor sockets_;     // map: queue → socket
  const Descriptor fragmented_;  // map: datagram → nothing
  const Descriptor program_;
  Descriptor link_;
  bool in_driver_ = false;
};

}  // namespace isotherm::net
