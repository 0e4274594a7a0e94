#include "net/packets/udp_frames.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "gpu/udp/reply_frame.h"
#include "net/packets/send_messages.h"

namespace isotherm::net {
namespace {

constexpr size_t longest_udp_datagram = 64 << 10;
constexpr size_t made_headers_room = 64;
constexpr std::string_view client_ethernet = "\2CLIEN";
constexpr std::string_view server_ethernet = "\2SERVE";

}  // namespace

UdpFrames::UdpFrames(const std::string& address, uint16_t port) {
  v6_ = ::inet_pton(AF_INET, address.c_str(), &own_.v4.sin_addr) != 1;
  if (v6_ && ::inet_pton(AF_INET6, address.c_str(), &own_.v6.sin6_addr) != 1) {
    throw std::system_error(EINVAL, std::generic_category(), address);
  }
  own_.any.sa_family = v6_ ? AF_INET6 : AF_INET;
  (v6_ ? own_.v6.sin6_port : own_.v4.sin_port) = htons(port);
  const int family = own_.any.sa_family;
  descriptor_ = ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  socklen_t bytes = v6_ ? sizeof own_.v6 : sizeof own_.v4;
  if (descriptor_ < 0 || ::bind(descriptor_, &own_.any, bytes) != 0 ||
      ::getsockname(descriptor_, &own_.any, &bytes) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw std::system_error(error, std::generic_category(), address);
  }
  port_ = ntohs(v6_ ? own_.v6.sin6_port : own_.v4.sin_port);
  for (Buffer& buffer : buffers_) {
    buffer.memory.resize((made_headers_room + longest_udp_datagram) / sizeof(Pair));
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
  std::array<mmsghdr, most_at_once> messages{};
  std::array<iovec, most_at_once> pieces;
  const uint32_t room = std::min(most, most_at_once);
  for (uint32_t i = 0; i < room; ++i) {
    pieces[i] = {datagram_of(buffers_[i]), longest_udp_datagram};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &buffers_[i].from;
    message.msg_namelen = sizeof buffers_[i].from;
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
  }
  const int count = ::recvmmsg(descriptor_, messages.data(), room, MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  const auto received = static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < received; ++i) {
    sink.take(make_frame(buffers_[i], messages[i].msg_len));
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
  char* const addresses = back + RequestFrame::addresses_at(v6_);
  const size_t bytes = RequestFrame::address_bytes(v6_);
  const Address& from = buffer.from;
  std::memcpy(addresses, v6_ ? static_cast<const void*>(&own_.v6.sin6_addr) : &own_.v4.sin_addr,
              bytes);
  std::memcpy(addresses + bytes,
              v6_ ? static_cast<const void*>(&from.v6.sin6_addr) : &from.v4.sin_addr, bytes);
  frame_bytes::put_number(back + packet.udp_at, port_);
  frame_bytes::store16(back + packet.udp_at + 2, v6_ ? from.v6.sin6_port : from.v4.sin_port);
  char* const frame = reinterpret_cast<char*>(buffer.memory.data());
  const char* const datagram = datagram_of(buffer);
  ReplyFrame::write_packet(frame, back, packet, datagram_bytes,
                           v6_ ? frame_bytes::sum(datagram, datagram_bytes) : 0);
  if (!v6_) frame_bytes::store16(frame + packet.udp_at + 6, 0);
  return {frame, static_cast<size_t>(datagram - frame) + datagram_bytes};
}

void UdpFrames::send(std::string_view frame) {
  if (waiting_ == most_at_once) flush();
  Reply& reply = replies_[waiting_++];
  const char* const udp = frame.data() + ReplyFrame::packet_at(v6_);
  const char* const to =
      frame.data() + RequestFrame::addresses_at(v6_) + RequestFrame::address_bytes(v6_);
  reply.datagram = frame.substr(ReplyFrame::packet_at(v6_) + RequestFrame::udp_bytes);
  reply.to = {};
  reply.to.any.sa_family = own_.any.sa_family;
  (v6_ ? reply.to.v6.sin6_port : reply.to.v4.sin_port) = frame_bytes::load16(udp + 2);
  std::memcpy(v6_ ? static_cast<void*>(&reply.to.v6.sin6_addr) : &reply.to.v4.sin_addr, to,
              RequestFrame::address_bytes(v6_));
}

void UdpFrames::flush() {
  if (waiting_ == 0) return;
  std::array<mmsghdr, most_at_once> messages{};
  std::array<iovec, most_at_once> pieces;
  for (uint32_t i = 0; i < waiting_; ++i) {
    Reply& reply = replies_[i];
    pieces[i] = {reply.datagram.data(), reply.datagram.size()};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &reply.to;
    message.msg_namelen = v6_ ? sizeof reply.to.v6 : sizeof reply.to.v4;
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
  }
  unsent_ += send_messages(descriptor_, {messages.data(), waiting_});
  waiting_ = 0;
}

}  // namespace isotherm::net
