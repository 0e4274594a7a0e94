// UdpFrame: the header before each datagram of memcached, 8 bytes in network order.
//
//    0  u16  id of the request, the client's; its reply has the same
//    2  u16  number of this datagram of the message, from 0
//    4  u16  how many datagrams the message has
//    6  u16  not used
// A request is one datagram. A reply is as many as it takes, of at most `datagram_bytes`.
//
// Threads. Any; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isotherm::net {

// The answer to a command that walks over the database, and in the place of too long a reply.
inline constexpr std::string_view no_walk_by_udp = "SERVER_ERROR not over UDP\r\n";
inline constexpr std::string_view too_long_by_udp = "SERVER_ERROR reply too large for UDP\r\n";

struct UdpFrame {
  static constexpr size_t header_bytes = 8;
  static constexpr size_t datagram_bytes = 1400;  // of a reply, as memcached's
  static constexpr size_t payload_bytes = datagram_bytes - header_bytes;
  // That its numbers can count.
  static constexpr size_t longest_reply = 65'535 * payload_bytes;

  enum class Fault : uint8_t {
    none,
    malformed,  // no header, or nothing behind it
    several,    // one of several datagrams
    foreign,    // what follows is not of the text protocol
  };

  uint16_t id = 0;
  uint16_t number = 0;
  uint16_t count = 1;

  // The frame of a request, and what is wrong with it.
  static Fault read(std::string_view datagram, UdpFrame& frame) {
    if (datagram.size() <= header_bytes) return Fault::malformed;
    frame = {u16_at(datagram, 0), u16_at(datagram, 2), u16_at(datagram, 4)};
    if (frame.number != 0 || frame.count != 1) return Fault::several;
    const auto first = static_cast<unsigned char>(datagram[header_bytes]);
    const bool text = (first >= ' ' && first < 0x7F) || first == '\r' || first == '\n';
    return text ? Fault::none : Fault::foreign;
  }
  void write(char* to) const {
    put_u16(to, id);
    put_u16(to + 2, number);
    put_u16(to + 4, count);
    put_u16(to + 6, 0);
  }

  static constexpr size_t datagrams(size_t reply_bytes) {
    return (reply_bytes + payload_bytes - 1) / payload_bytes;
  }
  // With all headers.
  static constexpr size_t sent_bytes(size_t reply_bytes) {
    return reply_bytes + datagrams(reply_bytes) * header_bytes;
  }

 private:
  static uint16_t u16_at(std::string_view bytes, size_t at) {
    return static_cast<uint16_t>(static_cast<unsigned char>(bytes[at]) << 8 |
                                 static_cast<unsigned char>(bytes[at + 1]));
  }
  static void put_u16(char* to, uint16_t value) {
    to[0] = static_cast<char>(value >> 8);
    to[1] = static_cast<char>(value);
  }
};

}  // namespace isotherm::net
