// RequestFrame: what a raw Ethernet frame is to a memcached server, and where its parts lie.
//
//   0   Ethernet: to, from (6 bytes each), type
//   14  IPv4 (20 bytes, more with options) or IPv6 (40 bytes)
//       UDP: ports, length, checksum (8 bytes)
//       memcached's frame header: id, number, count, 0 (8 bytes; net/udp/frame.h)
//       "get " or "gets ", a key of 1 to 250 bytes, "\r\n", and nothing behind it
// Such a frame is a `get`, which a GPU answers; every other one has a kind that says why it is
// none. `other` and `options` are right datagrams for this port, whose requests the CPU answers.
// A `fragment` may be one of such a datagram, which nobody knows until all of it is there
// (net/packets/reassembly.h).
// The rest is nothing that anybody answers: lengths that disagree, wrong checksums, one of several
// datagrams, and what is not for this port, or from an address or a port that no client has: an
// answer would go to many hosts, or to a server that answers it in turn.
//
// A frame may be longer than its packet, as Ethernet pads short ones. An IPv4 datagram need not
// have a checksum; an IPv6 one must.
//
// Threads. Any; pure functions, for CPU and GPU. Reads no byte beyond the frame, which begins at an
// even address. Limits. One VLAN or IPv6 extension header makes a frame `foreign`.
// Sources. MemcachedGPU, section 3.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/udp/frame_bytes.h"

namespace isotherm {

enum class FrameKind : uint8_t {
  get,       // a whole request for one key
  other,     // another request, or several
  options,   // IPv4 has options
  too_long,  // longer than a slot: nobody looked at it yet
  several,   // one of several datagrams
  fragment,
  foreign,
  lengths,
  checksum,
};
inline constexpr uint32_t frame_kinds = 9;

// Whether it is a request that the CPU answers where no GPU does.
constexpr bool is_request(FrameKind kind) {
  return kind == FrameKind::get || kind == FrameKind::other || kind == FrameKind::options;
}

struct RequestFrame {
  static constexpr uint32_t ethernet_bytes = 14;
  static constexpr uint32_t v4_bytes = 20;
  static constexpr uint32_t v6_bytes = 40;
  static constexpr uint32_t udp_bytes = 8;
  static constexpr uint32_t header_bytes = 8;  // memcached's
  static constexpr uint32_t most_key_bytes = 250;
  // The longest `get`.
  static constexpr uint32_t most_get_bytes =
      ethernet_bytes + v6_bytes + udp_bytes + header_bytes + 5 + most_key_bytes + 2;
  static constexpr uint8_t udp = 17;

  FrameKind kind = FrameKind::foreign;
  bool v6 = false;
  bool with_version = false;  // gets
  uint16_t key_bytes = 0;     // of a get
  uint32_t udp_at = 0;
  uint32_t datagram_bytes = 0;  // of what UDP carries; 0: not looked at
  uint32_t key_at = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t datagram_at() const { return udp_at + udp_bytes; }
  // Where the addresses of its packet begin, the sender's first.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t addresses_at(bool v6) {
    return ethernet_bytes + (v6 ? 8 : 12);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t address_bytes(bool v6) {
    return v6 ? 16 : 4;
  }

  // `port`: the server's.
  ISOTHERM_HOST_DEVICE static RequestFrame read(const char* frame, uint32_t bytes, uint16_t port) {
    RequestFrame request;
    request.kind = request.read_ethernet(frame, bytes, port);
    return request;
  }

  // Where the parts of a frame lie that is known to be a get.
  static RequestFrame of_get(const char* frame) {
    RequestFrame request;
    request.kind = FrameKind::get;
    request.v6 = frame_bytes::number_at(frame + 12) == type_v6;
    request.udp_at = ethernet_bytes + (request.v6 ? v6_bytes : v4_bytes);
    request.datagram_bytes = frame_bytes::number_at(frame + request.udp_at + 4) - udp_bytes;
    const uint32_t text_at = request.datagram_at() + header_bytes;
    request.with_version = frame[text_at + 3] == 's';
    request.key_at = text_at + (request.with_version ? 5 : 4);
    const uint32_t end = request.datagram_at() + request.datagram_bytes - 2;
    request.key_bytes = static_cast<uint16_t>(end - request.key_at);
    return request;
  }

 private:
  using Bytes = const char*;
  static constexpr uint16_t type_v4 = 0x0800;
  static constexpr uint16_t type_v6 = 0x86dd;

  ISOTHERM_HOST_DEVICE FrameKind read_ethernet(Bytes frame, uint32_t bytes, uint16_t port) {
    using namespace frame_bytes;
    if (bytes < ethernet_bytes) return FrameKind::lengths;
    constexpr uint8_t group = 1;
    if (((byte_at(frame) | byte_at(frame + 6)) & group) != 0) return FrameKind::foreign;
    const uint16_t type = number_at(frame + 12);
    if (type == type_v4) return read_v4(frame, bytes, port);
    return type == type_v6 ? read_v6(frame, bytes, port) : FrameKind::foreign;
  }

  ISOTHERM_HOST_DEVICE FrameKind read_v4(Bytes frame, uint32_t bytes, uint16_t port) {
    using namespace frame_bytes;
    if (bytes < ethernet_bytes + v4_bytes) return FrameKind::lengths;
    const char* const ip = frame + ethernet_bytes;
    const uint32_t head = (byte_at(ip) & 15) * 4;
    const uint32_t all = number_at(ip + 2);
    if (byte_at(ip) >> 4 != 4 || head < v4_bytes) return FrameKind::lengths;
    if (all < head || all > bytes - ethernet_bytes) return FrameKind::lengths;
    if (fold(sum(ip, head)) != right_sum) return FrameKind::checksum;
    constexpr uint16_t more_or_offset = 0x3fff;
    if ((number_at(ip + 6) & more_or_offset) != 0) return FrameKind::fragment;
    constexpr uint8_t first_of_groups = 224;
    const uint8_t from = byte_at(ip + 12);
    const uint8_t to = byte_at(ip + 16);
    if (byte_at(ip + 9) != udp || from == 0 || from >= first_of_groups || to >= first_of_groups) {
      return FrameKind::foreign;
    }
    udp_at = ethernet_bytes + head;
    const FrameKind what = read_udp(frame, all - head, port);
    const bool right = what == FrameKind::get || what == FrameKind::other;
    return right && head != v4_bytes ? FrameKind::options : what;
  }

  ISOTHERM_HOST_DEVICE FrameKind read_v6(Bytes frame, uint32_t bytes, uint16_t port) {
    using namespace frame_bytes;
    if (bytes < ethernet_bytes + v6_bytes) return FrameKind::lengths;
    const char* const ip = frame + ethernet_bytes;
    const uint32_t carried = number_at(ip + 4);
    if (byte_at(ip) >> 4 != 6 || carried > bytes - ethernet_bytes - v6_bytes) {
      return FrameKind::lengths;
    }
    constexpr uint8_t fragment_header = 44;
    if (byte_at(ip + 6) == fragment_header) return FrameKind::fragment;
    constexpr uint8_t groups = 0xff;
    if (byte_at(ip + 6) != udp || byte_at(ip + 8) == groups || byte_at(ip + 24) == groups ||
        sum(ip + 8, 16) == 0) {
      return FrameKind::foreign;
    }
    v6 = true;
    udp_at = ethernet_bytes + v6_bytes;
    return read_udp(frame, carried, port);
  }

  // `room`: what the packet carries.
  ISOTHERM_HOST_DEVICE FrameKind read_udp(Bytes frame, uint32_t room, uint16_t port) {
    using namespace frame_bytes;
    if (room < udp_bytes) return FrameKind::lengths;
    const char* const head = frame + udp_at;
    const uint32_t bytes = number_at(head + 4);
    if (bytes != room) return FrameKind::lengths;
    const uint16_t from = number_at(head);
    if (number_at(head + 2) != port || from == port || from == 0) return FrameKind::foreign;
    const bool has_sum = load16(head + 6) != 0;
    if (v6 && !has_sum) return FrameKind::checksum;
    if (has_sum && fold(pseudo_sum(frame, v6, bytes) + sum(head, bytes)) != right_sum) {
      return FrameKind::checksum;
    }
    datagram_bytes = bytes - udp_bytes;
    return read_datagram(frame + datagram_at());
  }

  ISOTHERM_HOST_DEVICE FrameKind read_datagram(Bytes datagram) {
    using namespace frame_bytes;
    if (datagram_bytes <= header_bytes) return FrameKind::lengths;
    if (number_at(datagram + 2) != 0 || number_at(datagram + 4) != 1) return FrameKind::several;
    return read_get(datagram + header_bytes, datagram_bytes - header_bytes) ? FrameKind::get
                                                                            : FrameKind::other;
  }

  ISOTHERM_HOST_DEVICE bool read_get(Bytes text, uint32_t bytes) {
    constexpr uint32_t least = 7;  // "get k\r\n"
    if (bytes < least || text[0] != 'g' || text[1] != 'e' || text[2] != 't') return false;
    with_version = text[3] == 's';
    const uint32_t before = with_version ? 5 : 4;
    if (text[before - 1] != ' ' || text[bytes - 2] != '\r' || text[bytes - 1] != '\n') return false;
    if (bytes < before + 3 || bytes - before - 2 > most_key_bytes) return false;
    if (!frame_bytes::is_text(text + before, bytes - before - 2)) return false;
    key_bytes = static_cast<uint16_t>(bytes - before - 2);
    key_at = datagram_at() + header_bytes + before;
    return true;
  }

 public:
  // Of the addresses, the protocol and the length, which the checksum of UDP covers, too.
  ISOTHERM_HOST_DEVICE static uint64_t pseudo_sum(Bytes frame, bool of_v6, uint32_t with_head) {
    using namespace frame_bytes;
    return sum(frame + addresses_at(of_v6), 2 * address_bytes(of_v6)) + swapped(udp) +
           swapped(with_head);
  }
};

}  // namespace isotherm
