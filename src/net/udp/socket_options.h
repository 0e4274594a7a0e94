// What sockets of UDP are told that have many datagrams at once, and what they can do.
//
// Threads. Any.
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

namespace isotherm::net {

// Bursts wait in the buffers, which the system may keep smaller.
inline void make_room_for_bursts(int descriptor) {
  const int bytes = 4 << 20;
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// Whether the kernel divides what is sent into datagrams (net/udp/sending.h).
inline bool divides_messages(int descriptor) {
  int segment = 0;
  socklen_t size = sizeof segment;
  return ::getsockopt(descriptor, IPPROTO_UDP, UDP_SEGMENT, &segment, &size) == 0;
}

}  // namespace isotherm::net
