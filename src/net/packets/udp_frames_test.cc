// A server of packets on a UDP socket, asked by a client's socket, over IPv4 and IPv6.
#include "net/packets/udp_frames.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

// A frame of a request, from a client of the loopback interface, is turned round to be a reply.
class Echo final : public net::FrameSink {
 public:
  explicit Echo(UdpFrames& frames) : frames_(frames) {}
  void take(std::string_view frame) override {
    const size_t hosts = RequestFrame::addresses_at(false), host = sizeof(in_addr);
    constexpr size_t ports = RequestFrame::ethernet_bytes + RequestFrame::v4_bytes, port = 2;
    std::string reply(frame);
    reply.replace(hosts, host, frame.substr(hosts + host, host));
    reply.replace(hosts + host, host, frame.substr(hosts, host));
    reply.replace(ports, port, frame.substr(ports + port, port));
    reply.replace(ports + port, port, frame.substr(ports, port));
    frames_.send(reply);
    ++taken;
  }
  uint32_t taken = 0;

 private:
  UdpFrames& frames_;
};

// The sizes of the datagrams that came as one message of the kernel's.
std::vector<size_t> receive_message(const PacketClient& client) {
  std::vector<char> bytes(64 << 10);
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t came = ::recvmsg(client.descriptor(), &message, 0);
  const auto all = static_cast<size_t>(std::max<ssize_t>(came, 0));
  int each = static_cast<int>(all);
  if (const cmsghdr* const part = CMSG_FIRSTHDR(&message); part != nullptr) {
    EXPECT_EQ(part->cmsg_type, UDP_GRO);
    std::memcpy(&each, CMSG_DATA(part), sizeof each);
  }
  std::vector<size_t> sizes;
  for (size_t at = 0; at < all; at += static_cast<size_t>(each)) {
    sizes.push_back(std::min(all - at, static_cast<size_t>(each)));
  }
  return sizes;
}

TEST(UdpFrames, RepliesToOneClientAreOneMessage) {
  UdpFrames frames("127.0.0.1", 0);
  Echo echo(frames);
  const PacketClient one("127.0.0.1", frames.port()), other("127.0.0.1", frames.port());
  const int on = 1;
  for (const PacketClient* client : {&one, &other}) {
    if (::setsockopt(client->descriptor(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0) {
      GTEST_SKIP() << "the kernel joins no datagrams";
    }
  }
  for (int i = 0; i < 5; ++i) {
    one.send("get key\r\n");
    other.send("get key\r\n");
  }
  one.send("get k\r\n");
  one.send("get key\r\n");
  while (echo.taken < 12) frames.receive(UdpFrames::most_at_once, echo);
  frames.flush();
  EXPECT_EQ(receive_message(one), (std::vector<size_t>{17, 17, 17, 17, 17, 15}));
  EXPECT_EQ(receive_message(one), (std::vector<size_t>{17}));
  EXPECT_EQ(receive_message(other), (std::vector<size_t>{17, 17, 17, 17, 17}));
  EXPECT_EQ(frames.unsent(), 0u);
}

// What comes while nobody looks waits in a larger buffer than sockets have by themselves.
TEST(UdpFrames, BurstsWait) {
  constexpr int burst = 4096;
  UdpFrames frames("127.0.0.1", 0);
  const int plain = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof own;
  ASSERT_EQ(::bind(plain, reinterpret_cast<sockaddr*>(&own), bytes), 0);
  ASSERT_EQ(::getsockname(plain, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
  const PacketClient to_plain("127.0.0.1", ntohs(own.sin_port));
  const PacketClient client("127.0.0.1", frames.port());
  for (int i = 0; i < burst; ++i) {
    to_plain.send("get key\r\n");
    client.send("get key\r\n");
  }
  uint32_t kept = 0;
  char datagram[64];
  while (::recv(plain, datagram, sizeof datagram, 0) > 0) ++kept;
  ::close(plain);
  Echo echo(frames);
  while (frames.receive(UdpFrames::most_at_once, echo) != 0) {
  }
  EXPECT_GT(echo.taken, std::min<uint32_t>(kept, burst - 1));
}

TEST(UdpFrames, AddressesThatCannotBeHad) {
  EXPECT_THROW(UdpFrames("localhost", 0), std::system_error);
  EXPECT_THROW(UdpFrames("192.0.2.1", 0), std::system_error);
  const UdpFrames first("127.0.0.1", 0);
  EXPECT_THROW(UdpFrames("127.0.0.1", first.port()), std::system_error);
}

}  // namespace
}  // namespace isotherm::udp_frames_test
