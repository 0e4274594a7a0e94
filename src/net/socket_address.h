// SocketAddress: an IPv4 or IPv6 address with a port, as the kernel and as people write it.
//
// Threads. Any; it is a value.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace isotherm::net {

class SocketAddress {
 public:
  // 0.0.0.0:0.
  SocketAddress();
  // "127.0.0.1", "::1" or "fe80::1%eth0", no names of hosts; nothing: the text is no address.
  static std::optional<SocketAddress> parse(const std::string& text, uint16_t port);
  // The two ends of a socket; 0.0.0.0:0 where the kernel does not know.
  static SocketAddress local_of(int descriptor);
  static SocketAddress peer_of(int descriptor);

  int family() const { return address_.any.sa_family; }
  bool is_v6() const { return family() == AF_INET6; }
  uint16_t port() const;
  const sockaddr* data() const { return &address_.any; }
  socklen_t size() const { return is_v6() ? sizeof address_.v6 : sizeof address_.v4; }
  // "127.0.0.1:6379", "[::1]:6379".
  std::string text() const;
  bool is_loopback() const;
  // As the kernel fills and compares it.
  static constexpr socklen_t storage_bytes = sizeof(sockaddr_in6);
  void* storage() { return &address_; }
  std::string_view bytes() const { return {reinterpret_cast<const char*>(&address_), size()}; }

 private:
  using NameOf = int (*)(int, sockaddr*, socklen_t*);
  static SocketAddress end_of(int descriptor, NameOf name_of);

  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address_{};
};

// The path of a UNIX socket and ":0", as Redis writes it; empty: it is another kind of socket.
std::string unix_path_of(int descriptor);

// An address to listen on, as redis.conf writes it: "*" and "::*" are all that the machine has, and
// one behind a "-" need not be there.
struct BindAddress {
  SocketAddress address;
  bool optional = false;

  static std::optional<BindAddress> parse(std::string_view text, uint16_t port);
  // Whether it is left out, as the machine does not have it, rather than an error.
  bool is_left_out(const std::error_code& why) const;
};

}  // namespace isotherm::net
