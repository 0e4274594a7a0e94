// A server that takes frames by itself: from a UDP socket, and from the ring of an interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "fake_device/fake_item_tier.h"
#include "models/own_network.h"
#include "models/packet_client.h"
#include "models/stored_server_fixture.h"

namespace isotherm::packet_options_test {
namespace {

class PacketOptionsTest : public StoredServerFixture {
 protected:
  PacketOptionsTest() {
    options_.store.device = DeviceChoice::cuda;
    options_.store.gpu_items = 8 << 20;
    options_.store.maxmemory = 64 << 20;
    options_.memcached_udp_trusted = net::UdpTrust::all;
  }
  ~PacketOptionsTest() override {
    stop();
    EXPECT_EQ(device_.take_errors(), std::vector<std::string>{});
  }
  std::unique_ptr<Server> make() override {
    return std::make_unique<Server>(options_, clock_, fake_item_tier_maker(device_));
  }
  void begin_with_socket() {
    options_.memcached_packets_address = "127.0.0.1";
    options_.memcached_packets_port = 0;
    start();
  }
  void tell(const std::string& request, const std::string& reply) {
    TestClient client(server_->memcached_port());
    EXPECT_EQ(client.ask(request, reply), reply) << request;
  }
  std::string stat(const std::string& name) {
    TestClient client(server_->memcached_port());
    client.send("stats\r\nquit\r\n");
    const std::string all = client.receive_all();
    const size_t begin = all.find("STAT " + name + " ");
    if (begin == std::string::npos) return "none";
    const size_t value = begin + name.size() + 6;
    return all.substr(value, all.find('\r', value) - value);
  }

  FakeDevice device_{5, uint64_t{1} << 28};
};

TEST_F(PacketOptionsTest, DatagramsOfASocketAreAnsweredFromTheItemsOfAll) {
  begin_with_socket();
  EXPECT_EQ(server_->listening().back(),
            "memcached packets 127.0.0.1:" + std::to_string(server_->memcached_packets_port()));
  const PacketClient client("127.0.0.1", server_->memcached_packets_port());
  const auto ask = [&](const std::string& text) {
    client.send(text);
    return client.receive();
  };
  tell("set k 5 0 5\r\nvalue\r\n", "STORED\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("get no\r\n"), "END\r\n");
  EXPECT_EQ(stat("packet_gets_by_gpu"), "2");
  EXPECT_EQ(stat("get_hits"), "1");
  EXPECT_EQ(stat("get_misses"), "1");
  EXPECT_EQ(stat("udp_received"), "2");
  EXPECT_EQ(stat("threads"), "2");
  EXPECT_EQ(ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
  tell("get k\r\n", "VALUE k 0 3\r\nnew\r\nEND\r\n");
  EXPECT_EQ(stat("get_hits"), "2");
  EXPECT_EQ(stat("packet_requests_by_cpu"), "1");
  for (int i = 0; i < 200; ++i) client.send("get k\r\n");
  for (int i = 0; i < 200; ++i) EXPECT_EQ(client.receive(), "VALUE k 0 3\r\nnew\r\nEND\r\n");
  EXPECT_EQ(stat("get_hits"), "202");
}

TEST_F(PacketOptionsTest, FramesWaitForTheEndOfAPause) {
  begin_with_socket();
  const PacketClient client("127.0.0.1", server_->memcached_packets_port());
  expect({"CLIENT", "PAUSE", "1000000", "WRITE"}, "+OK\r\n");
  auto reply = std::async(std::launch::async, [&] {
    client.send("get k\r\n");
    return client.receive();
  });
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  expect({"CLIENT", "UNPAUSE"}, "+OK\r\n");
  EXPECT_EQ(reply.get(), "END\r\n");
  // Nor does the end of the server.
  expect({"CLIENT", "PAUSE", "1000000", "WRITE"}, "+OK\r\n");
  client.send("get k\r\n");
  stop();
}

TEST_F(PacketOptionsTest, WhatCannotBeHadIsSaid) {
  options_.memcached_packets = "none-such";
  EXPECT_THROW(start(), std::system_error);
  options_.memcached_packets.clear();
  options_.memcached_packets_address = "localhost";
  EXPECT_THROW(start(), std::system_error);
  options_.memcached_packets_address = "127.0.0.1";
  options_.store.gpu_items = 0;
  options_.store.device = DeviceChoice::cpu;
  server_ = std::make_unique<Server>(options_, clock_);
  EXPECT_THROW(server_->start(files_), std::runtime_error);
}

// The server's threads have a network of their own, with a client by TCP in it; the one by frames
// is in another.
class RingServerTest : public PacketOptionsTest {
 protected:
  void test_across_a_veth_pair();
  void serve() {
    if (!own_network::leave(left_)) return;
    if (!joined_.get_future().get()) return;
    try {
      own_network::run("ip link set lo up");
      own_network::bring_up("server", "2");
      options_.memcached_packets = "server";
      start_or_miss();
      tell("set k 5 0 5\r\nvalue\r\n", "STORED\r\n");
      EXPECT_TRUE(server_->engine().tree()->flush());
      ready_.set_value();
    } catch (const std::exception&) {
      return ready_.set_exception(std::current_exception());
    }
    asked_.get_future().get();
    tell("get new\r\n", "VALUE new 0 1\r\nn\r\nEND\r\n");
    by_gpu_ = stat("packet_gets_by_gpu");
    stop();
  }
  void start_or_miss() {
    try {
      start();
    } catch (const std::system_error& error) {
      const bool forbidden = own_network::is_forbidden(error);
      forbidden ? throw own_network::Missing(error.what()) : throw;
    }
  }
  void ask() {
    own_network::leave();
    own_network::join_with(left_.get_future().get());
    own_network::bring_up("client", "1");
    joined_.set_value(true);
    has_joined_ = true;
    ready_.get_future().get();
    const PacketClient client("10.77.0.2", options_.memcached_packets_port);
    const auto ask = [&](const std::string& text) {
      client.send(text);
      return client.receive();
    };
    EXPECT_EQ(ask("get k\r\n"), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
    EXPECT_EQ(ask("get no\r\n"), "END\r\n");
    EXPECT_EQ(ask("set new 0 0 1\r\nn\r\n"), "STORED\r\n");
    EXPECT_EQ(ask("get new\r\n"), "VALUE new 0 1\r\nn\r\nEND\r\n");
    for (int i = 0; i < 100; ++i) client.send("get k\r\n");
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive(), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  }

  std::promise<pid_t> left_;
  std::promise<bool> joined_;
  bool has_joined_ = false;
  std::promise<void> ready_;
  std::promise<void> asked_;
  std::string by_gpu_;
};

void RingServerTest::test_across_a_veth_pair() {
  auto serves = std::async(std::launch::async, [&] { serve(); });
  auto asks = std::async(std::launch::async, [&] { ask(); });
  std::string missing;
  try {
    asks.get();
  } catch (const own_network::Missing& what) {
    missing = what.what();
  }
  if (!has_joined_) joined_.set_value(false);
  asked_.set_value();
  serves.get();
  if (!missing.empty()) GTEST_SKIP() << missing;
  // But those of the new key, perhaps.
  EXPECT_GE(std::stoi(by_gpu_), 102);
}

TEST_F(RingServerTest, FramesAcrossAVethPairAreAnsweredFromTheItemsOfAll) {
  test_across_a_veth_pair();
}

TEST_F(RingServerTest, AndThoseThatAProgramOfXdpHandsOver) {
  options_.memcached_packets_source = net::PacketSource::xdp;
  test_across_a_veth_pair();
}

}  // namespace
}  // namespace isotherm::packet_options_test
