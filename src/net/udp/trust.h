// Whether a client by UDP may be answered with more than it has sent, since its address is its own.
//
// Threads. Any.
#pragma once

#include "net/server_state.h"
#include "net/socket_address.h"

namespace isotherm::net {

inline bool is_trusted_by_udp(const ServerState& server, const SocketAddress& from) {
  const UdpTrust trust = server.options.memcached_udp_trusted;
  if (trust == UdpTrust::all) return true;
  if (trust == UdpTrust::loopback && from.is_loopback()) return true;
  return server.proven.has(from.text());
}

}  // namespace isotherm::net
