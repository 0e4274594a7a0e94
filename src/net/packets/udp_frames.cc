#include "net/packets/udp_frames.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "base/hash.h"
#include "gpu/udp/reply_frame.h"
#include "net/udp/socket_options.h"

namespace isotherm::net {
namespace {

constexpr size_t longest_udp_datagram = 64 << 10;
constexpr size_t made_headers_room = 64;
constexpr std::string_view client_ethernet = "\2CLIEN";
constexpr std::string_view server_ethernet = "\2SERVE";

// Where sockets' addresses of either kind have the port and the host, in network order.
constexpr size_t port_at = offsetof(sockaddr_in, sin_port);
static_assert(port_at == offsetof(sockaddr_in6, sin6_port));
constexpr size_t host_at(bool v6) {
  return v6 ? offsetof(sockaddr_in6, sin6_addr) : offsetof(sockaddr_in, sin_addr);
}

}  // namespace

UdpFrames::UdpFrames(const std::string& address, uint16_t port) {
  const auto own = SocketAddress::parse(address, port);
  if (!own) throw std::system_error(EINVAL, std::generic_category(), address);
  v6_ = own->is_v6();
  descriptor_ = ::socket(own->family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0 || ::bind(descriptor_, own->data(), own->size()) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw std::system_error(error, std::generic_category(), address);
  }
  own_ = SocketAddress::local_of(descriptor_);
  make_room_for_bursts(descriptor_);
  divides_ = divides_messages(descriptor_);
  for (uint32_t i = 0; i < most_at_once; ++i) {
    Buffer& buffer = buffers_[i];
    buffer.memory.resize((made_headers_room + longest_udp_datagram) / sizeof(Pair));
    pieces_[i] = {datagram_of(buffer), longest_udp_datagram};
    messages_[i] = {};
    msghdr& message = messages_[i].msg_hdr;
    message.msg_name = buffer.from.storage();
    message.msg_namelen = SocketAddress::storage_bytes;
    message.msg_iov = &pieces_[i];
    message.msg_iovlen = 1;
  }
}

UdpFrames::~UdpFrames() { ::close(descriptor_); }

uint64_t UdpFrames::memory() const {
  return most_at_once * (made_headers_room + longest_udp_datagram);
}

void UdpFrames::wait(int timeout_ms) const {
  pollfd socket{descriptor_, POLLIN, 0};
  ::poll(&socket, 1, timeout_ms);
}

char* UdpFrames::datagram_of(Buffer& buffer) const {
  return reinterpret_cast<char*>(buffer.memory.data()) + ReplyFrame::packet_at(v6_) +
         RequestFrame::udp_bytes;
}

uint32_t UdpFrames::receive(uint32_t most, FrameSink& sink) {
  const int count = ::recvmmsg(descriptor_, messages_.data(), std::min(most, most_at_once),
                               MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  const auto received = static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < received; ++i) {
    // The kernel has set it to the address's length.
    messages_[i].msg_hdr.msg_namelen = SocketAddress::storage_bytes;
    sink.take(make_frame(buffers_[i], messages_[i].msg_len));
  }
  return received;
}

// A reply from here to the client, whose headers are turned round.
std::string_view UdpFrames::make_frame(Buffer& buffer, uint32_t datagram_bytes) const {
  alignas(Pair) char back[made_headers_room] = {};
  RequestFrame packet;
  packet.v6 = v6_;
  packet.udp_at = ReplyFrame::packet_at(v6_);
  client_ethernet.copy(back, client_ethernet.size());
  server_ethernet.copy(back + client_ethernet.size(), server_ethernet.size());
  frame_bytes::put_number(back + 12, v6_ ? 0x86dd : 0x0800);
  char* const hosts = back + RequestFrame::addresses_at(v6_);
  const size_t host_bytes = RequestFrame::address_bytes(v6_);
  own_.bytes().copy(hosts, host_bytes, host_at(v6_));
  buffer.from.bytes().copy(hosts + host_bytes, host_bytes, host_at(v6_));
  char* const ports = back + packet.udp_at;
  own_.bytes().copy(ports, sizeof(uint16_t), port_at);
  buffer.from.bytes().copy(ports + sizeof(uint16_t), sizeof(uint16_t), port_at);
  char* const frame = reinterpret_cast<char*>(buffer.memory.data());
  const char* const datagram = datagram_of(buffer);
  ReplyFrame::write_packet(frame, back, packet, datagram_bytes,
                           v6_ ? frame_bytes::sum(datagram, datagram_bytes) : 0);
  if (!v6_) frame_bytes::store16(frame + packet.udp_at + 6, 0);
  return {frame, static_cast<size_t>(datagram - frame) + datagram_bytes};
}

void UdpFrames::send(std::string_view frame) {
  if (waiting_ == most_at_once) flush();
  Reply& reply = replies_[waiting_];
  const size_t host_bytes = RequestFrame::address_bytes(v6_);
  reply.datagram = frame.substr(ReplyFrame::packet_at(v6_) + RequestFrame::udp_bytes);
  reply.to = own_;
  char* const to = static_cast<char*>(reply.to.storage());
  frame.copy(to + host_at(v6_), host_bytes, RequestFrame::addresses_at(v6_) + host_bytes);
  frame.copy(to + port_at, sizeof(uint16_t), ReplyFrame::packet_at(v6_) + sizeof(uint16_t));
  ++waiting_;  // behind what may lack memory
}

// Those of a client stand together, in the order in which they came: so they are neighbours,
// whoever else has asked meanwhile.
void UdpFrames::put_in_order() {
  for (uint32_t i = 0; i < waiting_; ++i) {
    order_[i] = hash_bytes(replies_[i].to.bytes(), 0) / most_at_once * most_at_once + i;
  }
  std::sort(order_.begin(), order_.begin() + waiting_);
}

// The replies from `first` on, as messages.
void UdpFrames::gather(uint32_t first, bool divides, UdpSending& sending) const {
  for (uint32_t i = first; i < waiting_; ++i) {
    const Reply& reply = replies_[order_[i] % most_at_once];
    const size_t piece = sending.piece_count++;
    sending.pieces[piece] = {const_cast<char*>(reply.datagram.data()), reply.datagram.size()};
    sending.add(reply.to, reply.datagram.size() - UdpFrame::header_bytes, piece, divides);
  }
}

void UdpFrames::flush() {
  bool divides = divides_;
  put_in_order();
  for (uint32_t done = 0; done < waiting_;) {
    UdpSending sending;
    gather(done, divides, sending);
    const int result = ::sendmmsg(descriptor_, sending.headers.data(),
                                  static_cast<unsigned>(sending.message_count), MSG_NOSIGNAL);
    if (result > 0) {
      done += static_cast<uint32_t>(sending.datagrams_of(static_cast<size_t>(result)));
    } else if (sending.cannot_be_divided(errno)) {
      divides = false;
    } else if (errno != EINTR) {
      // Its address cannot be reached, or the socket is full.
      const auto dropped = static_cast<uint32_t>(sending.messages[0].datagrams);
      unsent_ += dropped;
      done += dropped;
    }
  }
  waiting_ = 0;
}

}  // namespace isotherm::net
