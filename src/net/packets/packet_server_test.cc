// Conversations in raw frames: gets by a fake device, all else by the CPU, in order for each
// client.
#include "net/packets/packet_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "fake_device/fake_packets.h"
#include "models/built_frames.h"
#include "models/fragments.h"
#include "models/queued_frames.h"
#include "net/packets/item_commands.h"
#include "net/packets/pcap_frames.h"

namespace isotherm::packet_server_test {
namespace {

using built_frames::build;
using built_frames::Parts;
using net::FrameSink;
using net::PacketServer;
using net::PcapFrames;

constexpr int64_t timeout_us = 10'000;

class Packets : public ::testing::Test {
 protected:
  explicit Packets(uint32_t amplification = 0) {
    PacketOptions options;
    options.rows = 16;
    options.channels = 2;
    options.amplification = amplification;
    device = make_fake_packets(3, options);
    commands.emplace(*device);
    server.emplace(*device, source, *commands, clock, timeout_us);
  }
  // The text of all replies to one client for a datagram; each frame of them is right.
  std::string ask(const Parts& parts) {
    source.replies.clear();
    source.waiting.push_back(build(parts));
    server->turn();
    clock.advance(timeout_us / 1000);
    while (server->counts().received != finished()) server->turn();
    return text_of_replies();
  }
  // All that waits is answered.
  void finish() {
    while (!source.waiting.empty() || !server->idle()) {
      server->turn();
      clock.advance(timeout_us / 1000);
    }
  }
  std::string ask(const std::string& text) { return ask(Parts{.text = text}); }
  uint64_t finished() const {
    const net::PacketCounts& counts = server->counts();
    uint64_t all = counts.by_device + counts.by_cpu;
    for (const uint64_t dropped : counts.dropped) all += dropped;
    return all;
  }
  std::string text_of_replies() const {
    std::string text;
    uint32_t number = 0;
    for (const std::string& frame : source.replies) {
      const auto read = built_frames::read(frame);
      if (!read) return "a wrong frame";
      EXPECT_EQ(read->to_port, Parts{}.from_port);
      EXPECT_EQ(built_frames::number(read->header, 0), Parts{}.id);
      EXPECT_EQ(built_frames::number(read->header, 2), number++);
      EXPECT_EQ(built_frames::number(read->header, 4), source.replies.size());
      text += read->text;
    }
    return text;
  }

  ManualClock clock{1'700'000'000'000};
  QueuedFrames source;
  std::unique_ptr<PacketDevice> device;
  std::optional<net::ItemCommands> commands;
  std::optional<PacketServer> server;
};

TEST_F(Packets, CommandsMeanWhatTheyMeanOnAServer) {
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
  EXPECT_EQ(ask("set k 5 0 5\r\nvalue\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("add k 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("replace k 7 0 2\r\nhe\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("append k 0 0 3\r\nllo\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("prepend k 0 0 1\r\n_\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 7 6\r\n_hello\r\nEND\r\n");
  EXPECT_EQ(ask("incr k 1\r\n"),
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  EXPECT_EQ(ask("set n 0 0 2\r\n10\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("decr n 1\r\n"), "9\r\n");
  EXPECT_EQ(ask("get n\r\n"), "VALUE n 0 2\r\n9 \r\nEND\r\n");
  EXPECT_EQ(ask("incr n 90\r\n"), "99\r\n");
  EXPECT_EQ(ask("get k n m\r\n"), "VALUE k 7 6\r\n_hello\r\nVALUE n 0 2\r\n99\r\nEND\r\n");
  EXPECT_EQ(ask("delete n\r\n"), "DELETED\r\n");
  EXPECT_EQ(ask("delete n\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(ask("set n 0 0 1 noreply\r\nx\r\n"), "");
  EXPECT_EQ(ask("get n\r\n"), "VALUE n 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(ask("mg n v\r\n"), "SERVER_ERROR not by packets\r\n");
  EXPECT_EQ(ask("stats\r\n"), "SERVER_ERROR not by packets\r\n");
  EXPECT_EQ(ask("nonsense\r\n"), "ERROR\r\n");
  EXPECT_EQ(ask("set half 0 0 10\r\nhal"), "");
  EXPECT_GT(server->counts().by_device, 3u);
}

TEST_F(Packets, VersionsAndExpiry) {
  ask("set k 0 0 1\r\na\r\n");
  const std::string gets = ask("gets k\r\n");
  const std::string version = gets.substr(12, gets.find("\r\n") - 12);
  EXPECT_EQ(gets, "VALUE k 0 1 " + version + "\r\na\r\nEND\r\n");
  EXPECT_EQ(ask("cas k 0 0 1 " + version + "\r\nb\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("cas k 0 0 1 " + version + "\r\nc\r\n"), "EXISTS\r\n");
  EXPECT_EQ(ask("cas no 0 0 1 1\r\nc\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(ask("touch k 10\r\n"), "TOUCHED\r\n");
  EXPECT_EQ(ask("gat 20 k\r\n"), "VALUE k 0 1\r\nb\r\nEND\r\n");
  clock.advance(15'000);
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 1\r\nb\r\nEND\r\n");
  clock.advance(10'000);
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
  EXPECT_EQ(ask("touch k 10\r\n"), "NOT_FOUND\r\n");
}

TEST_F(Packets, LongValuesTakeSeveralDatagrams) {
  const std::string value(5000, 'v');
  Parts put{.text = "set k 0 0 5000\r\n" + value + "\r\n"};
  EXPECT_EQ(ask(put), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 5000\r\n" + value + "\r\nEND\r\n");
  EXPECT_EQ(source.replies.size(), 4u);
  EXPECT_EQ(ask(Parts{.v6 = true, .text = "get k\r\n"}),
            "VALUE k 0 5000\r\n" + value + "\r\nEND\r\n");
  EXPECT_EQ(server->counts().by_device, 0u);
  EXPECT_EQ(ask(Parts{.text = "get x\r\n", .options = std::string(8, '\1')}), "END\r\n");
}

// Each is run where its last fragment came, between the other requests of its client.
TEST_F(Packets, DatagramsInFragmentsAreRunInOrder) {
  for (const bool v6 : {false, true}) {
    const std::string value(60'000, 'v');
    const std::string put = build({.v6 = v6, .text = "set k 0 0 60000\r\n" + value + "\r\n"});
    auto parts = fragments::split(put, 1480, 3);
    std::reverse(parts.begin(), parts.end());
    source.replies.clear();
    source.waiting.push_back(build({.v6 = v6, .text = "delete k\r\n"}));
    source.waiting.insert(source.waiting.end(), parts.begin(), parts.end() - 1);
    source.waiting.push_back(build({.v6 = v6, .text = "get k\r\n"}));
    source.waiting.push_back(parts.back());
    source.waiting.push_back(build({.v6 = v6, .text = "get k\r\n"}));
    finish();
    std::string text;
    for (const std::string& frame : source.replies) {
      EXPECT_LE(frame.size(), ReplyFrame::most_bytes);
      text += built_frames::read(frame)->text;
    }
    EXPECT_EQ(text, (v6 ? "DELETED\r\nEND\r\n" : "NOT_FOUND\r\nEND\r\n") +
                        ("STORED\r\nVALUE k 0 60000\r\n" + value + "\r\nEND\r\n"));
  }
  EXPECT_EQ(server->counts().joined, 2u);
  EXPECT_EQ(server->counts().fragments, 2u * 41);
}

TEST_F(Packets, FragmentsThatBecomeNothingAreCounted) {
  const std::string wrong_port = build({.to_port = 80, .text = std::string(100, 'x')});
  const auto lost = fragments::split(build({.text = std::string(100, 'x')}), 64, 1);
  const auto parts = fragments::split(wrong_port, 64, 2);
  source.waiting = {lost[0], parts[0], parts[1], fragments::part_of(wrong_port, 0, 60, 3, true)};
  finish();
  clock.advance(net::Reassembly::patience_us / 1000);
  source.waiting = {lost[1], build({})};
  finish();
  EXPECT_EQ(source.replies.size(), 1u);
  EXPECT_EQ(server->counts().joined, 1u);
  EXPECT_EQ(server->counts().fragments, 4u);
  const auto& dropped = server->counts().dropped;
  EXPECT_EQ(dropped[static_cast<size_t>(FrameKind::foreign)], 1u);
  EXPECT_EQ(dropped[static_cast<size_t>(FrameKind::fragment)], 1u);
}

TEST_F(Packets, ADatagramHasFewRequests) {
  std::string keys;
  for (int i = 0; i < 300; ++i) keys += " k";
  EXPECT_EQ(ask("get" + keys + "\r\n"), "SERVER_ERROR too much for a datagram\r\n");
  EXPECT_EQ(ask("get" + keys.substr(0, 2 * 255) + "\r\n"), "END\r\n");
}

TEST_F(Packets, FaultyFramesAreCountedAndNotAnswered) {
  std::string wrong = build({});
  wrong.back() = 'x';
  source.waiting = {wrong, build({.to_port = 80}), "short", std::string(1000, '\2'),
                    build({.text = "\x80\1\r\n"})};
  source.closed = true;
  while (server->turn()) {
  }
  EXPECT_TRUE(source.replies.empty());
  const auto& dropped = server->counts().dropped;
  EXPECT_EQ(dropped[static_cast<size_t>(FrameKind::checksum)], 1u);
  EXPECT_EQ(dropped[static_cast<size_t>(FrameKind::foreign)], 3u);
  EXPECT_EQ(dropped[static_cast<size_t>(FrameKind::lengths)], 1u);
}

TEST_F(Packets, ABatchGoesWhenItIsFullOrItsTimeHasCome) {
  source.waiting.push_back(build({}));
  EXPECT_TRUE(server->turn());
  EXPECT_TRUE(server->turn());
  EXPECT_EQ(server->counts().batches, 0u);
  clock.advance(timeout_us / 1000 - 1);
  server->turn();
  EXPECT_EQ(server->counts().batches, 0u);
  clock.advance(1);
  server->turn();
  EXPECT_EQ(server->counts().batches, 1u);
  for (int i = 0; i < 17; ++i) source.waiting.push_back(build({}));
  server->turn();
  EXPECT_EQ(server->counts().batches, 2u);
  source.closed = true;
  while (server->turn()) {
  }
  EXPECT_EQ(server->counts().batches, 3u);
  EXPECT_EQ(source.replies.size(), 18u);
}

// Clients with keys of their own change and read them, many frames a batch.
// Frames whose first reply finds no memory.
class LackingFrames final : public QueuedFrames {
 public:
  void send(std::string_view frame) override {
    if (!std::exchange(lacked_, true)) throw std::bad_alloc();
    QueuedFrames::send(frame);
  }

 private:
  bool lacked_ = false;
};

TEST_F(Packets, AReplyWithoutMemoryIsLostAlone) {
  LackingFrames frames;
  PacketServer lacking(*device, frames, *commands, clock, 0);
  for (const char* const text : {"set k 0 0 1\r\na\r\n", "get k k\r\n"}) {
    frames.waiting.push_back(build(Parts{.text = text}));
  }
  frames.end();
  while (lacking.turn()) {
  }
  EXPECT_EQ(lacking.counts().by_cpu, 2u);
  EXPECT_EQ(lacking.counts().unsent, 1u);
  ASSERT_EQ(frames.replies.size(), 1u);
  const auto read = built_frames::read(frames.replies[0]);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text, "VALUE k 0 1\r\na\r\nVALUE k 0 1\r\na\r\nEND\r\n");
}

TEST_F(Packets, RequestsOfAClientTakeEffectInOrder) {
  constexpr uint32_t clients = 6;
  std::mt19937_64 random(1);
  std::map<std::string, std::string> model;
  std::vector<std::deque<std::string>> expected(clients);
  for (int i = 0; i < 400; ++i) {
    const auto client = static_cast<uint32_t>(random() % clients);
    const std::string key =
        std::string(1, static_cast<char>('a' + client)) + std::to_string(random() % 2);
    Parts parts{.v6 = client % 2 == 1, .client = static_cast<uint8_t>(client)};
    const auto shown = [&](const std::string& of) {
      const auto at = model.find(of);
      if (at == model.end()) return std::string();
      return "VALUE " + of + " 0 " + std::to_string(at->second.size()) + "\r\n" + at->second +
             "\r\n";
    };
    std::string answer;
    switch (random() % 16) {
      case 0: {
        const std::string value = std::to_string(random() % 1000);
        parts.text =
            "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
        model[key] = value;
        answer = "STORED\r\n";
        break;
      }
      case 1:
        parts.text = "delete " + key + "\r\n";
        answer = model.erase(key) != 0 ? "DELETED\r\n" : "NOT_FOUND\r\n";
        break;
      case 2: {
        const std::string other = key.substr(0, 1) + "0";
        parts.text = "get " + key + ' ' + other + "\r\n";
        answer = shown(key) + shown(other) + "END\r\n";
        break;
      }
      default:
        parts.text = "get " + key + "\r\n";
        answer = shown(key) + "END\r\n";
    }
    expected[client].push_back(answer);
    source.waiting.push_back(build(parts));
  }
  source.closed = true;
  while (server->turn()) {
  }
  EXPECT_EQ(source.replies.size(), 400u);
  for (const std::string& frame : source.replies) {
    const auto read = built_frames::read(frame);
    ASSERT_TRUE(read);
    const auto client = static_cast<uint8_t>(read->to.back());
    EXPECT_EQ(read->text, expected[client].front());
    expected[client].pop_front();
  }
  EXPECT_GT(server->counts().overtaken, 20u);
  EXPECT_GT(server->counts().by_device, 100u);
}

// Frames of two batches, of which one stays under way, are held until they are answered, and not
// longer.
TEST(PacketsInLentMemory, StayThereUntilTheirBatchHasEnded) {
  PacketOptions options;
  options.rows = 16;
  options.channels = 2;
  options.amplification = 0;
  const ManualClock clock(1'700'000'000'000);
  const auto device = make_fake_packets(3, options);
  net::ItemCommands commands(*device);
  LentFrames source;
  {
    PacketServer server(*device, source, commands, clock, 0);
    const std::string value(1000, 'v');
    std::vector<std::string> expected;
    const auto ask = [&](const std::string& text, const std::string& answer) {
      for (int i = 0; i < 4; ++i) {
        source.waiting.push_back(build({.v6 = i % 2 == 1, .text = text}));
        expected.push_back(answer);
      }
    };
    ask("set k 0 0 1000\r\n" + value + "\r\n", "STORED\r\n");
    ask("get k\r\n", "VALUE k 0 1000\r\n" + value + "\r\nEND\r\n");
    ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    ask("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    for (int i = 0; i < 20; ++i) ask("get no\r\n", "END\r\n");
    size_t most_held = 0;
    while (!source.waiting.empty() || !server.idle()) {
      server.turn();
      most_held = std::max(most_held, source.held());
    }
    EXPECT_EQ(source.held(), 0u);
    // Two of three of a batch at least; of each the third was copied.
    EXPECT_GE(most_held, 10u);
    ASSERT_EQ(source.replies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto read = built_frames::read(source.replies[i]);
      EXPECT_TRUE(read && read->text == expected[i]) << i;
    }
    EXPECT_GT(server.counts().by_device, 50u);
  }
}

class BoundedPackets : public Packets {
 protected:
  BoundedPackets() : Packets(3) {}
};

TEST_F(BoundedPackets, NobodyIsSentMuchMoreThanHeSends) {
  const std::string value(200, 'v');
  EXPECT_EQ(ask("set k 0 0 200\r\n" + value + "\r\n"), "STORED\r\n");
  // Even the error would be more than three times the 15 bytes of the request.
  EXPECT_EQ(ask("get k\r\n"), "");
  EXPECT_EQ(ask("get k" + std::string(4, ' ') + "k k k k k k k k k k k k k k k k k k k k\r\n"),
            "SERVER_ERROR reply too large for UDP\r\n");
  EXPECT_EQ(server->counts().too_long, 2u);
  EXPECT_EQ(ask("get no\r\n"), "END\r\n");
}

TEST(PcapFrames, FramesInAndOut) {
  struct Sink final : FrameSink {
    void take(std::string_view frame) override { frames.emplace_back(frame); }
    std::vector<std::string> frames;
  };
  std::string capture = PcapFrames::header();
  for (uint32_t i = 0; i < 3; ++i) PcapFrames::append(capture, std::string(i, 'f'), i);
  Sink sink;
  PcapFrames whole(capture);
  EXPECT_EQ(whole.receive(2, sink), 2u);
  EXPECT_FALSE(whole.ended());
  EXPECT_EQ(whole.receive(2, sink), 1u);
  EXPECT_TRUE(whole.ended());
  EXPECT_EQ(sink.frames, (std::vector<std::string>{"", "f", "ff"}));
  whole.send("reply");
  PcapFrames replies(whole.replies());
  EXPECT_EQ(replies.receive(9, sink), 1u);
  EXPECT_EQ(sink.frames.back(), "reply");
  // As a machine of the other byte order writes it.
  std::string swapped = PcapFrames::header();
  PcapFrames::append(swapped, "abcd", 0);
  for (size_t at = 0; at < swapped.size() - 4; at += 4) {
    std::reverse(swapped.begin() + static_cast<ptrdiff_t>(at),
                 swapped.begin() + static_cast<ptrdiff_t>(at + 4));
  }
  EXPECT_EQ(PcapFrames(swapped).receive(9, sink), 1u);
  EXPECT_EQ(sink.frames.back(), "abcd");
  PcapFrames cut(capture.substr(0, capture.size() - 1));
  EXPECT_EQ(cut.receive(9, sink), 2u);
  EXPECT_TRUE(cut.ended());
  EXPECT_THROW(PcapFrames("short"), std::invalid_argument);
  EXPECT_THROW(PcapFrames(std::string(24, 'x')), std::invalid_argument);
  std::string other_link = PcapFrames::header();
  other_link[20] = 101;
  EXPECT_THROW(PcapFrames{other_link}, std::invalid_argument);
}

}  // namespace
}  // namespace isotherm::packet_server_test
