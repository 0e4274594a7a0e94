// ReplyCursor: which datagram of an exchange comes next.
//
// A datagram of a client may have several requests, each of which has a reply of its own, in order:
//
//   output  [ reply | reply              | reply ]
//             0/1     0/3    1/3    2/3    0/1        number and count of its datagrams
//
// All have the id of the request.
//
// Threads. Belongs to one loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/udp/frame.h"

namespace isotherm::net {

// Of replies that end there: their bytes, and those of all headers but the network's of the first
// datagram, which those of the request pay for.
inline size_t sent_bytes(const std::vector<size_t>& ends) {
  constexpr size_t network_headers = 28;
  size_t datagrams = 0;
  size_t begin = 0;
  for (const size_t end : ends) {
    datagrams += UdpFrame::datagrams(end - begin);
    begin = end;
  }
  if (datagrams == 0) return 0;
  return begin + datagrams * UdpFrame::header_bytes + (datagrams - 1) * network_headers;
}

class ReplyCursor {
 public:
  ReplyCursor() = default;
  // At the first; `ends` says where in the output the replies end, and outlives this.
  ReplyCursor(const std::vector<size_t>& ends, uint16_t id) : ends_(&ends) {
    frame_.id = id;
    begin_reply();
  }

  bool at_end() const { return reply_ == ends_->size(); }
  // Of the next datagram, which there is: its header, and the bytes of the reply in it.
  const UdpFrame& frame() const { return frame_; }
  size_t bytes() const { return std::min((*ends_)[reply_] - at_, UdpFrame::payload_bytes); }
  void advance() {
    at_ += bytes();
    ++frame_.number;
    if (at_ != (*ends_)[reply_]) return;
    ++reply_;
    begin_reply();
  }

 private:
  void begin_reply() {
    if (at_end()) return;
    frame_.number = 0;
    frame_.count = static_cast<uint16_t>(UdpFrame::datagrams((*ends_)[reply_] - at_));
  }

  const std::vector<size_t>* ends_ = nullptr;
  size_t reply_ = 0;
  size_t at_ = 0;  // bytes before the next datagram
  UdpFrame frame_;
};

}  // namespace isotherm::net
