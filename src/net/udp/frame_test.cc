#include "net/udp/frame.h"

#include <gtest/gtest.h>

#include <string>

#include "net/proven_addresses.h"
#include "net/udp/repeats.h"

namespace isotherm::net::udp_frame_test {
namespace {

using Fault = UdpFrame::Fault;

std::string datagram(UdpFrame frame, std::string_view payload) {
  std::string bytes(UdpFrame::header_bytes, '\0');
  frame.write(bytes.data());
  return bytes.append(payload);
}

TEST(UdpFrame, IsReadAsItIsWritten) {
  UdpFrame frame;
  EXPECT_EQ(UdpFrame::read(datagram({.id = 0xABCD}, "get a\r\n"), frame), Fault::none);
  EXPECT_EQ(frame.id, 0xABCD);
  const std::string bytes = datagram({.id = 0x0102, .number = 0x0304, .count = 0x0506}, "x");
  EXPECT_EQ(bytes, std::string("\1\2\3\4\5\6\0\0x", 9));
}

TEST(UdpFrame, WhatIsNoRequestIsTold) {
  UdpFrame frame;
  EXPECT_EQ(UdpFrame::read("", frame), Fault::malformed);
  EXPECT_EQ(UdpFrame::read("1234567", frame), Fault::malformed);
  EXPECT_EQ(UdpFrame::read(datagram({}, ""), frame), Fault::malformed);
  EXPECT_EQ(UdpFrame::read(datagram({.count = 2}, "get a\r\n"), frame), Fault::several);
  EXPECT_EQ(UdpFrame::read(datagram({.number = 1}, "get a\r\n"), frame), Fault::several);
  EXPECT_EQ(UdpFrame::read(datagram({.count = 0}, "get a\r\n"), frame), Fault::several);
  EXPECT_EQ(UdpFrame::read(datagram({}, "\x80"), frame), Fault::foreign);
  EXPECT_EQ(UdpFrame::read(datagram({}, std::string_view("\0get", 4)), frame), Fault::foreign);
}

TEST(UdpFrame, RepliesAreDivided) {
  EXPECT_EQ(UdpFrame::datagrams(1), 1u);
  EXPECT_EQ(UdpFrame::datagrams(1392), 1u);
  EXPECT_EQ(UdpFrame::datagrams(1393), 2u);
  EXPECT_EQ(UdpFrame::sent_bytes(1393), 1393u + 16);
  EXPECT_EQ(UdpFrame::sent_bytes(0), 0u);
}

TEST(UdpRepeats, AreThoseOfTheLastDatagramsAndOfAMoment) {
  UdpRepeats repeats;
  EXPECT_FALSE(repeats.note(7, 1000));
  EXPECT_TRUE(repeats.note(7, 1000));
  EXPECT_FALSE(repeats.note(8, 1000));
  EXPECT_TRUE(repeats.note(7, 1000 + UdpRepeats::window_ms));
  EXPECT_FALSE(repeats.note(7, 1001 + UdpRepeats::window_ms)) << "a repeat prolongs nothing";
  for (uint64_t other = 0; other < UdpRepeats::window; ++other) repeats.note(1'000 + other, 1100);
  EXPECT_FALSE(repeats.note(7, 1100)) << "too many came in between";
}

TEST(UdpRepeats, NothingIsARepeatAtFirst) {
  UdpRepeats repeats;
  EXPECT_FALSE(repeats.note(0, 0));
}

TEST(ProvenAddresses, AreThoseWithAConnection) {
  ProvenAddresses proven;
  EXPECT_FALSE(proven.has("10.0.0.1:5"));
  proven.add("10.0.0.1:4000");
  proven.add("10.0.0.1:4001");
  proven.add("[::1]:4001");
  EXPECT_TRUE(proven.has("10.0.0.1:5"));
  EXPECT_TRUE(proven.has("[::1]:5"));
  EXPECT_FALSE(proven.has("10.0.0.2:4000"));
  proven.remove("10.0.0.1:4000");
  EXPECT_TRUE(proven.has("10.0.0.1:5"));
  proven.remove("10.0.0.1:4001");
  EXPECT_FALSE(proven.has("10.0.0.1:5"));
}

}  // namespace
}  // namespace isotherm::net::udp_frame_test
