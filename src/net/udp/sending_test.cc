#include "net/udp/sending.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace isotherm::net::udp_sending_test {
namespace {

constexpr size_t header = UdpFrame::header_bytes;

class UdpSendingTest : public testing::Test {
 protected:
  // A datagram of one piece behind its header.
  void add(const SocketAddress& to, size_t bytes, bool joins = true) {
    const size_t first_piece = sending_->piece_count;
    sending_->pieces[sending_->piece_count++] = {sending_->frames[sending_->count].data(), header};
    sending_->pieces[sending_->piece_count++] = {nullptr, bytes};
    sending_->add(to, bytes, first_piece, joins);
  }
  std::vector<size_t> datagrams() const {
    std::vector<size_t> counts;
    for (size_t i = 0; i < sending_->message_count; ++i) {
      const UdpSending::Message& message = sending_->messages[i];
      const msghdr& its = sending_->headers[i].msg_hdr;
      EXPECT_EQ(its.msg_iovlen, 2 * message.datagrams);
      EXPECT_EQ(divided_by(its), message.datagrams > 1 ? message.each : 0) << i;
      counts.push_back(message.datagrams);
    }
    return counts;
  }
  // What the kernel is told; 0: nothing.
  static size_t divided_by(const msghdr& its) {
    const cmsghdr* const part = CMSG_FIRSTHDR(&its);
    if (part == nullptr) return 0;
    EXPECT_EQ(part->cmsg_level, IPPROTO_UDP);
    EXPECT_EQ(part->cmsg_type, UDP_SEGMENT);
    uint16_t each = 0;
    std::memcpy(&each, CMSG_DATA(part), sizeof each);
    return each;
  }

  const SocketAddress a_ = *SocketAddress::parse("127.0.0.1", 1);
  const SocketAddress again_ = *SocketAddress::parse("127.0.0.1", 1);
  const SocketAddress b_ = *SocketAddress::parse("127.0.0.1", 2);
  std::unique_ptr<UdpSending> sending_ = std::make_unique<UdpSending>();
};

TEST_F(UdpSendingTest, NeighboursForOneAddressAreOneMessageWhileTheirSizeLasts) {
  add(a_, 60);
  add(again_, 60);
  add(a_, 41);  // a shorter one is the last
  add(a_, 41);
  add(a_, 60);  // a longer one is not of it
  add(b_, 60);
  add(b_, 60);
  add(a_, 60);
  EXPECT_EQ(datagrams(), (std::vector<size_t>{3, 1, 1, 2, 1}));
  EXPECT_EQ(sending_->messages[0].each, 60 + header);
  EXPECT_EQ(sending_->headers[3].msg_hdr.msg_name, b_.data());
}

TEST_F(UdpSendingTest, NothingIsJoinedWhereTheKernelDoesNotDivide) {
  for (int i = 0; i < 3; ++i) add(a_, 60, false);
  EXPECT_EQ(datagrams(), (std::vector<size_t>{1, 1, 1}));
}

TEST_F(UdpSendingTest, AMessageHasNoMoreThanFit) {
  while (!sending_->full()) add(a_, UdpFrame::payload_bytes);
  EXPECT_EQ(datagrams(), (std::vector<size_t>{32, 32}));
}

}  // namespace
}  // namespace isotherm::net::udp_sending_test
