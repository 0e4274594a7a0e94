// A server of packets on a veth interface, in a network namespace of its own, asked by a client in
// another one, over IPv4 and IPv6; frames come from a ring, and by AF_XDP.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "fake_device/fake_packets.h"
#include "models/built_frames.h"
#include "models/own_network.h"
#include "models/packet_client.h"
#include "net/packets/item_commands.h"
#include "net/packets/packet_server.h"
#include "net/packets/ring_frames.h"
#include "net/packets/xdp_frames.h"

namespace isotherm::interface_frames_test {
namespace {

using net::PacketServer;
using net::RingFrames;
using net::XdpFrames;

constexpr uint16_t port = 11'211;

bool has_program() { return std::system("ip link show dev server | grep -q xdp") == 0; }

// What became of the frames, and whether the interface had a program of XDP, then and afterwards.
struct Outcome {
  net::PacketCounts counts;
  uint64_t dropped = 0;
  bool had_program = false;
  bool has_program = false;
};

// Ends with the test, whatever becomes of it.
template <class Frames>
class FrameServer {
 public:
  // `room`: blocks or chunks of frames.
  explicit FrameServer(uint32_t room) : room_(room), thread_([this] { serve(); }) {}
  ~FrameServer() {
    if (!asked_) go_.set_value(false);
    if (!has_ended_ && frames_ != nullptr) stop();
    thread_.join();
  }
  FrameServer(const FrameServer&) = delete;
  FrameServer& operator=(const FrameServer&) = delete;

  // The thread's number, when it has left its network.
  pid_t thread_number() { return left_.get_future().get(); }
  // When it has got the interface "server".
  void start() {
    asked_ = true;
    go_.set_value(true);
    ready_.get_future().get();
  }
  Outcome end() {
    has_ended_ = true;
    stop();
    return ended_.get_future().get();
  }

 private:
  void stop() {
    frames_->end();
    stopped_.set_value();  // so they may be taken apart
  }
  void serve() {
    if (!own_network::leave(left_)) return;
    if (!go_.get_future().get()) return;
    try {
      own_network::bring_up("server", "2");
      frames_ = std::make_unique<Frames>("server", port, room_);
      outcome_.had_program = has_program();
      PacketOptions options;
      options.port = port;
      options.amplification = 0;
      options.channels = 1;
      options.rows = 8;
      device_ = make_fake_packets(1, options);
      commands_ = std::make_unique<net::ItemCommands>(*device_);
      server_ = std::make_unique<PacketServer>(*device_, *frames_, *commands_, clock_, 0);
      ready_.set_value();
    } catch (const std::system_error& error) {
      return ready_.set_exception(own_network::is_forbidden(error)
                                      ? std::make_exception_ptr(own_network::Missing(error.what()))
                                      : std::current_exception());
    } catch (const std::exception&) {
      return ready_.set_exception(std::current_exception());
    }
    constexpr int patience_ms = 20;
    while (server_->turn()) {
      if (server_->idle()) frames_->wait(patience_ms);
    }
    stopped_.get_future().get();
    outcome_.counts = server_->counts();
    outcome_.dropped = frames_->dropped();
    server_.reset();
    frames_.reset();
    outcome_.has_program = has_program();
    ended_.set_value(outcome_);
  }

  const uint32_t room_;
  const ManualClock clock_{1'000'000};
  std::promise<pid_t> left_;
  std::promise<bool> go_;
  bool asked_ = false;
  std::promise<void> ready_;
  bool has_ended_ = false;
  std::promise<void> stopped_;
  std::promise<Outcome> ended_;
  Outcome outcome_;
  std::unique_ptr<Frames> frames_;
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
  // In fragments; its replies are datagrams that need none.
  const std::string value = std::string(20'000, 'x') + "y";
  EXPECT_EQ(ask("set longer 0 0 20001\r\n" + value + "\r\n"), "STORED\r\n");
  std::string reply = ask("get longer\r\n");
  const std::string expected = "VALUE longer 0 20001\r\n" + value + "\r\nEND\r\n";
  while (reply.size() < expected.size()) reply += client.receive();
  EXPECT_EQ(reply, expected);
  for (int i = 0; i < 100; ++i) client.send("get k\r\n");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.receive(), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("delete k\r\n"), "DELETED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
}

// Nobody answers them; of what is for another port the kernel says so.
void send_for_nobody(const std::string& address) {
  const PacketClient other(address, port + 1);
  other.send("get k\r\n");
  EXPECT_EQ(other.receive(), "no reply");
  const PacketClient client(address, port);
  client.send("");
}

// From many ports, so that all queues have some.
void ask_from_many(const std::string& address) {
  std::deque<PacketClient> clients;
  for (int i = 0; i < 32; ++i) clients.emplace_back(address, port).send("get no\r\n");
  for (const PacketClient& client : clients) EXPECT_EQ(client.receive(), "END\r\n");
}

template <class Frames>
Outcome serve_and_ask(uint32_t queues) {
  FrameServer<Frames> server(std::is_same_v<Frames, RingFrames> ? 8 : 256);
  const pid_t server_thread = server.thread_number();
  own_network::leave();
  own_network::join_with(server_thread, queues);
  own_network::bring_up("client", "1");
  server.start();
  send_for_nobody("10.77.0.2");
  ask_all("10.77.0.2");
  ask_from_many("10.77.0.2");
  if (std::system("ip -6 address show dev client | grep -q fd77") == 0) {
    ask_all("fd77::2");
  } else {
    // Of as many as over IPv6.
    ask_all("10.77.0.2");
  }
  return server.end();
}

template <class Frames>
void test_across_a_veth_pair(uint32_t queues, bool by_program) {
  auto done = std::async(std::launch::async, [&] { return serve_and_ask<Frames>(queues); });
  Outcome outcome;
  try {
    outcome = done.get();
  } catch (const own_network::Missing& missing) {
    GTEST_SKIP() << missing.what();
  }
  // All gets but those of the long values.
  EXPECT_EQ(outcome.counts.by_device, 2u * 103 + 32);
  EXPECT_EQ(outcome.counts.dropped[static_cast<size_t>(FrameKind::lengths)], 1u);
  EXPECT_EQ(outcome.counts.joined, 2u);
  EXPECT_EQ(outcome.counts.fragments, 2u * 14);
  EXPECT_EQ(outcome.counts.unsent, 0u);
  EXPECT_EQ(outcome.dropped, 0u);
  EXPECT_EQ(outcome.had_program, by_program);
  EXPECT_FALSE(outcome.has_program);
}

TEST(RingFrames, AreAnsweredAcrossAVethPair) { test_across_a_veth_pair<RingFrames>(1, false); }

TEST(RingFrames, InterfacesThatCannotBeHad) {
  EXPECT_THROW(RingFrames("none-such", port), std::system_error);
}

TEST(XdpFrames, AreAnsweredAcrossAVethPair) { test_across_a_veth_pair<XdpFrames>(1, true); }

TEST(XdpFrames, AreAnsweredByAllQueues) { test_across_a_veth_pair<XdpFrames>(4, true); }

struct KeptFrames final : net::FrameSink {
  void take(std::string_view frame) override { frames.push_back(frame); }
  std::vector<std::string_view> frames;
};

void send_more_than_there_are_chunks() {
  constexpr uint32_t chunks = 8;
  constexpr uint32_t sent = 50;
  own_network::leave();
  own_network::join_with(static_cast<pid_t>(::gettid()));
  own_network::bring_up("server", "2");
  own_network::run("ip link set client up");
  std::unique_ptr<XdpFrames> frames;
  try {
    frames = std::make_unique<XdpFrames>("server", port, chunks);
  } catch (const std::system_error& error) {
    if (own_network::is_forbidden(error)) throw own_network::Missing(error.what());
    throw;
  }
  EXPECT_EQ(frames->way(), "copied, program in the driver, 1 queue");
  RingFrames client("client", port + 1, 1);
  const std::string frame = built_frames::build({});
  const auto send = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) client.send(frame);
    client.flush();
  };
  const auto wait_for_dropped = [&](uint32_t count) {
    constexpr int most_waits = 1000;
    for (int i = 0; i < most_waits && frames->dropped() < count; ++i) ::usleep(10'000);
    EXPECT_EQ(frames->dropped(), count);
  };
  KeptFrames kept;
  send(sent);
  wait_for_dropped(sent - chunks);
  EXPECT_EQ(frames->receive(sent, kept), chunks);
  // They are not given back yet.
  EXPECT_EQ(frames->receive(sent, kept), 0u);
  send(1);
  wait_for_dropped(sent - chunks + 1);
  for (const std::string_view given : kept.frames) EXPECT_EQ(given, frame);
  for (const std::string_view given : kept.frames) frames->release(given);
  EXPECT_EQ(frames->receive(sent, kept), 0u);
  send(chunks + 2);
  wait_for_dropped(sent - chunks + 1 + 2);
  EXPECT_EQ(frames->receive(sent, kept), chunks);
}

TEST(XdpFrames, WithoutAChunkFramesAreCounted) {
  auto done = std::async(std::launch::async, send_more_than_there_are_chunks);
  try {
    done.get();
  } catch (const own_network::Missing& missing) {
    GTEST_SKIP() << missing.what();
  }
}

// A process that has the interface until it is killed, and says so.
[[noreturn]] void have_interface(int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  char had = '0';
  std::unique_ptr<XdpFrames> frames;
  try {
    frames = std::make_unique<XdpFrames>("server", port, 64);
    had = '1';
    const XdpFrames second("server", port + 1, 64);
    had = '2';
  } catch (const std::exception&) {
    // The second is refused.
  }
  EXPECT_EQ(::write(ready, &had, 1), 1);
  for (;;) ::pause();
}

void kill_who_has_the_interface() {
  own_network::leave();
  own_network::join_with(static_cast<pid_t>(::gettid()));
  own_network::bring_up("server", "2");
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t process = ::fork();
  if (process == 0) have_interface(ready[1]);
  char had = '0';
  EXPECT_EQ(::read(ready[0], &had, 1), 1);
  const bool during = has_program();
  EXPECT_EQ(::kill(process, SIGKILL), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  ::close(ready[0]);
  ::close(ready[1]);
  if (had == '0') throw own_network::Missing("AF_XDP cannot be had");
  EXPECT_EQ(had, '1');
  EXPECT_TRUE(during);
  // The kernel may take it off a little later.
  constexpr int most_waits = 1000;
  for (int i = 0; i < most_waits && has_program(); ++i) ::usleep(10'000);
  EXPECT_FALSE(has_program());
}

TEST(XdpFrames, AreLetGoWhenTheProcessIsKilled) {
  auto done = std::async(std::launch::async, kill_who_has_the_interface);
  try {
    done.get();
  } catch (const own_network::Missing& missing) {
    GTEST_SKIP() << missing.what();
  }
}

TEST(XdpFrames, InterfacesThatCannotBeHad) {
  EXPECT_THROW(XdpFrames("none-such", port), std::system_error);
}

}  // namespace
}  // namespace isotherm::interface_frames_test
