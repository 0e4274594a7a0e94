#include "net/packets/interface.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "gpu/udp/request_frame.h"

namespace isotherm::net {
namespace {

// A socket on the port whose filter takes nothing. -1 where there is no such family.
int take_port(int family, uint16_t port) {
  const int socket = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{1, &nothing};
  const int yes = 1;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const bool is_v6 = family == AF_INET6;
  const auto* const at =
      is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0 ||
      (is_v6 && ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0) ||
      ::bind(socket, at, is_v6 ? sizeof v6 : sizeof v4) != 0) {
    const int error = errno;
    ::close(socket);
    throw std::system_error(error, std::generic_category(), "UDP port " + std::to_string(port));
  }
  return socket;
}

// A whole packet of UDP in a frame.
struct UdpPart {
  bool v6 = false;
  uint32_t at = 0;
  uint32_t bytes = 0;  // with its header
};

std::optional<UdpPart> find_udp(const char* frame, uint32_t bytes) {
  constexpr uint32_t ethernet = RequestFrame::ethernet_bytes;
  constexpr uint32_t more_or_offset = 0x3fff;
  if (bytes < ethernet + RequestFrame::v4_bytes) return std::nullopt;
  UdpPart udp;
  udp.v6 = frame_bytes::number_at(frame + 12) == ETH_P_IPV6;
  const char* const ip = frame + ethernet;
  if (udp.v6 ? frame_bytes::byte_at(ip + 6) != RequestFrame::udp
             : frame_bytes::byte_at(ip + 9) != RequestFrame::udp ||
                   (frame_bytes::number_at(ip + 6) & more_or_offset) != 0) {
    return std::nullopt;
  }
  udp.at = ethernet + (udp.v6 ? RequestFrame::v6_bytes : (frame_bytes::byte_at(ip) & 15u) * 4);
  if (bytes < udp.at + RequestFrame::udp_bytes) return std::nullopt;
  udp.bytes = frame_bytes::number_at(frame + udp.at + 4);
  if (udp.bytes < RequestFrame::udp_bytes || udp.bytes > bytes - udp.at) return std::nullopt;
  return udp;
}

}  // namespace

void fail_by_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int interface_index(const std::string& interface) {
  const unsigned index = ::if_nametoindex(interface.c_str());
  if (index == 0) fail_by_errno(interface);
  return static_cast<int>(index);
}

TakenPort::TakenPort(uint16_t port)
    : sockets_{Descriptor(take_port(AF_INET, port)), Descriptor(take_port(AF_INET6, port))} {}

void make_checksum(char* frame, uint32_t bytes) {
  const std::optional<UdpPart> udp = find_udp(frame, bytes);
  if (!udp) return;
  frame_bytes::store16(frame + udp->at + 6, 0);
  const uint64_t before = RequestFrame::pseudo_sum(frame, udp->v6, udp->bytes);
  frame_bytes::store16(
      frame + udp->at + 6,
      frame_bytes::udp_checksum(before + frame_bytes::sum(frame + udp->at, udp->bytes)));
}

bool is_checksum_unfinished(const char* frame, uint32_t bytes) {
  const std::optional<UdpPart> udp = find_udp(frame, bytes);
  return udp && frame_bytes::load16(frame + udp->at + 6) ==
                    frame_bytes::fold(RequestFrame::pseudo_sum(frame, udp->v6, udp->bytes));
}

}  // namespace isotherm::net
