// A client of memcached over UDP, for tests of servers of packets.
//
// Threads. One.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace isotherm {

class PacketClient {
 public:
  // A numeric address of either kind.
  PacketClient(const std::string& address, uint16_t port)
      : descriptor_(::socket(is_v6(address) ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 to6{};
    to6.sin6_family = AF_INET6;
    to6.sin6_port = htons(port);
    sockaddr_in to4{};
    to4.sin_family = AF_INET;
    to4.sin_port = htons(port);
    const bool v6 = is_v6(address);
    const auto* to = v6 ? reinterpret_cast<sockaddr*>(&to6) : reinterpret_cast<sockaddr*>(&to4);
    EXPECT_EQ(v6 ? ::inet_pton(AF_INET6, address.c_str(), &to6.sin6_addr)
                 : ::inet_pton(AF_INET, address.c_str(), &to4.sin_addr),
              1);
    constexpr timeval patience{120, 0};  // no test waits for ever
    EXPECT_EQ(::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    EXPECT_EQ(::connect(descriptor_, to, v6 ? sizeof to6 : sizeof to4), 0);
  }
  ~PacketClient() { ::close(descriptor_); }
  PacketClient(const PacketClient&) = delete;
  PacketClient& operator=(const PacketClient&) = delete;

  int descriptor() const { return descriptor_; }
  void send(const std::string& text) const {
    const std::string datagram = std::string("\0\7\0\0\0\1\0\0", 8) + text;
    EXPECT_EQ(::send(descriptor_, datagram.data(), datagram.size(), 0),
              static_cast<ssize_t>(datagram.size()));
  }
  std::string receive() const {
    char datagram[2048];
    const ssize_t bytes = ::recv(descriptor_, datagram, sizeof datagram, 0);
    if (bytes < 8) return "no reply";
    EXPECT_EQ(std::string_view(datagram, 2), std::string_view("\0\7", 2));
    return {datagram + 8, static_cast<size_t>(bytes) - 8};
  }

 private:
  static bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

  const int descriptor_;
};

}  // namespace isotherm
