// A server of packets on the ring of a veth interface, in a network namespace of its own, asked by
// a client in another one, over IPv4 and IPv6.
#include "net/packets/ring_frames.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "fake_device/fake_packets.h"
#include "models/own_network.h"
#include "models/packet_client.h"
#include "net/packets/item_commands.h"
#include "net/packets/packet_server.h"

namespace isotherm::ring_frames_test {
namespace {

using net::PacketServer;
using net::RingFrames;

constexpr uint16_t port = 11'211;

// Ends with the test, whatever becomes of it.
class RingServer {
 public:
  RingServer() : thread_([this] { serve(); }) {}
  ~RingServer() {
    if (!asked_) go_.set_value(false);
    if (frames_ != nullptr) frames_->end();
    thread_.join();
  }
  RingServer(const RingServer&) = delete;
  RingServer& operator=(const RingServer&) = delete;

  // The thread's number, when it has left its network.
  pid_t thread_number() { return left_.get_future().get(); }
  // When it has got the interface "server".
  void start() {
    asked_ = true;
    go_.set_value(true);
    ready_.get_future().get();
  }
  // After `end`.
  PacketServer& server() { return *server_; }
  RingFrames& frames() { return *frames_; }
  void end() {
    frames_->end();
    ended_.get_future().get();
  }

 private:
  void serve() {
    if (!own_network::leave(left_)) return;
    if (!go_.get_future().get()) return;
    try {
      own_network::bring_up("server", "2");
      frames_ = std::make_unique<RingFrames>("server", port, 8);
      PacketOptions options;
      options.port = port;
      options.amplification = 0;
      options.channels = 1;
      options.rows = 8;
      device_ = make_fake_packets(1, options);
      commands_ = std::make_unique<net::ItemCommands>(*device_);
      server_ = std::make_unique<PacketServer>(*device_, *frames_, *commands_, clock_, 0);
      ready_.set_value();
    } catch (const std::exception&) {
      return ready_.set_exception(std::current_exception());
    }
    constexpr int patience_ms = 20;
    while (server_->turn()) {
      if (server_->idle()) frames_->wait(patience_ms);
    }
    ended_.set_value();
  }

  const ManualClock clock_{1'000'000};
  std::promise<pid_t> left_;
  std::promise<bool> go_;
  bool asked_ = false;
  std::promise<void> ready_;
  std::promise<void> ended_;
  std::unique_ptr<RingFrames> frames_;
  std::unique_ptr<PacketDevice> device_;
  std::unique_ptr<net::ItemCommands> commands_;
  std::unique_ptr<PacketServer> server_;
  std::thread thread_;
};

void ask_all(const std::string& address) {
  const PacketClient client(address, port);
  const auto ask = [&](const std::string& text) {
    client.send(text);
    return client.receive();
  };
  EXPECT_EQ(ask("set k 0 0 5\r\nvalue\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("get no\r\n"), "END\r\n");
  EXPECT_EQ(ask("set long 0 0 1000\r\n" + std::string(1000, 'v') + "\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get long\r\n"), "VALUE long 0 1000\r\n" + std::string(1000, 'v') + "\r\nEND\r\n");
  for (int i = 0; i < 100; ++i) client.send("get k\r\n");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive(), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("delete k\r\n"), "DELETED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
}

// Nobody answers them.
void send_for_nobody(const std::string& address) {
  const PacketClient other(address, port + 1);
  other.send("get k\r\n");
  const PacketClient client(address, port);
  client.send("");
}

void test_in_networks(uint64_t& by_device, uint64_t& faulty) {
  RingServer ring;
  const pid_t server_thread = ring.thread_number();
  own_network::leave();
  own_network::join_with(server_thread);
  own_network::bring_up("client", "1");
  ring.start();
  send_for_nobody("10.77.0.2");
  ask_all("10.77.0.2");
  const bool has_v6 = std::system("ip -6 address show dev client | grep -q fd77") == 0;
  if (has_v6) ask_all("fd77::2");
  ring.end();
  by_device = ring.server().counts().by_device / (has_v6 ? 2 : 1);
  faulty = ring.server().counts().dropped[static_cast<size_t>(FrameKind::lengths)];
  EXPECT_EQ(ring.frames().unsent(), 0u);
  EXPECT_EQ(ring.frames().dropped(), 0u);
}

TEST(RingFrames, AreAnsweredAcrossAVethPair) {
  uint64_t by_device = 0;
  uint64_t faulty = 0;
  auto done = std::async(std::launch::async, [&] { test_in_networks(by_device, faulty); });
  try {
    done.get();
  } catch (const own_network::Missing& missing) {
    GTEST_SKIP() << missing.what();
  }
  // All gets but that of the long value.
  EXPECT_EQ(by_device, 103u);
  EXPECT_EQ(faulty, 1u);
}

TEST(RingFrames, InterfacesThatCannotBeHad) {
  EXPECT_THROW(RingFrames("none-such", port), std::system_error);
}

}  // namespace
}  // namespace isotherm::ring_frames_test
