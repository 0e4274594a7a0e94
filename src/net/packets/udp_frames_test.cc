// A server of packets on a UDP socket, asked by a client's socket, over IPv4 and IPv6.
#include "net/packets/udp_frames.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "base/clock.h"
#include "fake_device/fake_packets.h"
#include "models/packet_client.h"
#include "net/packets/item_commands.h"
#include "net/packets/packet_server.h"

namespace isotherm::udp_frames_test {
namespace {

using net::PacketServer;
using net::UdpFrames;

class UdpPackets : public ::testing::TestWithParam<bool> {};

TEST_P(UdpPackets, AreAnswered) {
  const bool v6 = GetParam();
  std::unique_ptr<UdpFrames> frames;
  try {
    frames = std::make_unique<UdpFrames>(v6 ? "::1" : "127.0.0.1", 0);
  } catch (const std::system_error& error) {
    if (v6) GTEST_SKIP() << "no IPv6 here: " << error.what();
    throw;
  }
  PacketOptions options;
  options.port = frames->port();
  options.amplification = 0;
  options.channels = 1;
  options.rows = 8;
  const auto device = make_fake_packets(1, options);
  const ManualClock clock(1'000'000);
  net::ItemCommands commands(*device);
  PacketServer server(*device, *frames, commands, clock, 0);
  const PacketClient client(v6 ? "::1" : "127.0.0.1", frames->port());
  const auto ask = [&](const std::string& text) {
    const uint64_t before = server.counts().by_cpu + server.counts().by_device;
    client.send(text);
    frames->wait(-1);
    while (server.counts().by_cpu + server.counts().by_device == before) server.turn();
    return client.receive();
  };
  EXPECT_EQ(ask("set k 0 0 5\r\nvalue\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("get no\r\n"), "END\r\n");
  EXPECT_EQ(ask("set long 0 0 1000\r\n" + std::string(1000, 'v') + "\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get long\r\n"), "VALUE long 0 1000\r\n" + std::string(1000, 'v') + "\r\nEND\r\n");
  EXPECT_EQ(server.counts().by_device, 2u);
  // Many at once, and a datagram without anything.
  client.send("");
  for (int i = 0; i < 100; ++i) client.send("get k\r\n");
  while (server.counts().by_device != 102) server.turn();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive(), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(server.counts().dropped[static_cast<size_t>(FrameKind::lengths)], 1u);
  EXPECT_EQ(frames->unsent(), 0u);
  frames->end();
  EXPECT_FALSE(server.turn());
}
INSTANTIATE_TEST_SUITE_P(Addresses, UdpPackets, ::testing::Bool());

TEST(UdpFrames, AddressesThatCannotBeHad) {
  EXPECT_THROW(UdpFrames("localhost", 0), std::system_error);
  EXPECT_THROW(UdpFrames("192.0.2.1", 0), std::system_error);
  const UdpFrames first("127.0.0.1", 0);
  EXPECT_THROW(UdpFrames("127.0.0.1", first.port()), std::system_error);
}

}  // namespace
}  // namespace isotherm::udp_frames_test
