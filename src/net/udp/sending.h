// UdpSending: datagrams for one system call.
//
// Neighbours for one address that are of one size, the last of them perhaps shorter, are one
// message, which the kernel divides (UDP_SEGMENT): they go through it together, which costs about
// as much as one of them.
//
//   datagrams  [ a 60 | a 60 | a 41 | a 60 | b 60 | b 60 ]
//   messages   [ a: 3, of 60        | a: 1 | b: 2, of 60 ]
//
// A datagram is pieces of memory, which stay where they are until it is sent; its header may be
// here.
//
// Threads. Belongs to one loop; lives on its stack.
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "net/socket_address.h"
#include "net/udp/frame.h"

namespace isotherm::net {

class UdpSending {
 public:
  static constexpr size_t most = 64;
  static constexpr size_t most_pieces = 8 * most;
  static constexpr size_t most_in_message = 32;

  struct Message {
    size_t datagrams = 0;
    size_t each = 0;       // bytes
    bool shorter = false;  // the last one is
  };

  bool full() const { return count == most || piece_count + 2 > most_pieces; }

  // The next datagram, whose pieces are those from `first_piece` on, with so many bytes of a reply.
  void add(const SocketAddress& to, size_t reply_bytes, size_t first_piece, bool joins) {
    const size_t size = reply_bytes + UdpFrame::header_bytes;
    if (!joins || !join(to, size)) begin(to, size, first_piece);
    headers[message_count - 1].msg_hdr.msg_iovlen += piece_count - first_piece;
    bytes[count++] = reply_bytes;
  }

  // Of so many messages at the front.
  size_t datagrams_of(size_t some) const {
    size_t datagrams = 0;
    for (size_t i = 0; i < some; ++i) datagrams += messages[i].datagrams;
    return datagrams;
  }
  // Whether the first message was refused since it is of several datagrams, which have to be sent
  // one by one: a link may be too narrow for one.
  bool cannot_be_divided(int error) const {
    return messages[0].datagrams > 1 && (error == EINVAL || error == EIO);
  }

  std::array<mmsghdr, most> headers;
  std::array<Message, most> messages;
  std::array<std::array<char, UdpFrame::header_bytes>, most> frames;  // of datagrams
  std::array<size_t, most> bytes;                                     // of replies in them
  std::array<iovec, most_pieces> pieces;
  size_t count = 0;  // datagrams
  size_t message_count = 0;
  size_t piece_count = 0;

 private:
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
  };

  void begin(const SocketAddress& to, size_t size, size_t first_piece) {
    messages[message_count] = {1, size};
    to_ = &to;
    msghdr& header = headers[message_count++].msg_hdr;
    header = {};
    header.msg_name = const_cast<sockaddr*>(to.data());
    header.msg_namelen = to.size();
    header.msg_iov = &pieces[first_piece];
  }

  // Whether it is of the last message now.
  bool join(const SocketAddress& to, size_t size) {
    if (message_count == 0) return false;
    Message& message = messages[message_count - 1];
    if (message.shorter || size > message.each || message.datagrams == most_in_message ||
        to_->bytes() != to.bytes()) {
      return false;
    }
    message.shorter = size < message.each;
    if (++message.datagrams == 2) divide_last();
    return true;
  }

  void divide_last() {
    msghdr& header = headers[message_count - 1].msg_hdr;
    Control& control = controls_[message_count - 1];
    control = {};
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = IPPROTO_UDP;
    part->cmsg_type = UDP_SEGMENT;
    part->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    const auto each = static_cast<uint16_t>(messages[message_count - 1].each);
    std::memcpy(CMSG_DATA(part), &each, sizeof each);
  }

  std::array<Control, most> controls_;
  const SocketAddress* to_ = nullptr;  // of the last message
};

}  // namespace isotherm::net
