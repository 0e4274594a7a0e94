// Gets in frames, answered by a GPU from the items of a server that other clients change.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_checks/test_size.h"
#include "fake_device/fake_item_tier.h"
#include "gpu/platform/device_error.h"
#include "items/poison.h"
#include "models/built_frames.h"
#include "models/queued_frames.h"
#include "models/stored_server_fixture.h"
#include "net/packets/packet_server.h"
#include "net/packets/packet_thread.h"
#include "net/packets/store_packets.h"
#include "net/udp/frame.h"
#include "tree/tree_run.h"

namespace isotherm::packet_items_test {
namespace {

using built_frames::build;
using built_frames::Parts;

// Whose batches end when a test says so.
class HeldDevice final : public PacketDevice {
 public:
  explicit HeldDevice(std::unique_ptr<PacketDevice> device) : device_(std::move(device)) {}
  const PacketOptions& options() const override { return device_->options(); }
  const PacketSlots& slots(uint32_t channel) const override { return device_->slots(channel); }
  void start(uint32_t channel, uint32_t rows, int64_t now_ms) override {
    device_->start(channel, rows, now_ms);
  }
  bool done(uint32_t channel) override {
    if (held) return false;
    device_->wait(channel);
    return true;
  }
  void wait(uint32_t channel) override { device_->wait(channel); }
  uint64_t run_host(const gpu::ItemRequests& requests) override {
    return device_->run_host(requests);
  }

  bool held = false;

 private:
  const std::unique_ptr<PacketDevice> device_;
};

class PacketItemsTest : public StoredServerFixture {
 protected:
  explicit PacketItemsTest(uint32_t amplification = 0) {
    options_.store.device = DeviceChoice::cuda;
    options_.store.gpu_items = 8 << 20;
    options_.store.maxmemory = 64 << 20;
    options_.memcached_udp_amplification = amplification;
    packets_.amplification = amplification;
    packets_.rows = 32;
    packets_.channels = 2;
  }
  ~PacketItemsTest() override {
    server_of_packets_.reset();
    store_.reset();
    packet_device_.reset();
    tcp_.reset();
    stop();
    const std::vector<std::string> errors = device_.take_errors();
    EXPECT_TRUE(lost_ || errors.empty()) << errors.front();
  }
  std::unique_ptr<Server> make() override {
    return std::make_unique<Server>(options_, clock_, fake_item_tier_maker(device_));
  }
  void begin() {
    start();
    tcp_ = std::make_unique<TestClient>(server_->memcached_port());
    packet_device_ = std::make_unique<HeldDevice>(tree().make_packets(packets_));
    store_.emplace(server_->state(), counters_, tree(), stops_);
    server_of_packets_.emplace(*packet_device_, source_, *store_, clock_, 0);
  }
  Tree& tree() { return *server_->engine().tree(); }
  const net::PacketCounts& counts() const { return server_of_packets_->counts(); }

  // By TCP.
  void tell(const std::string& request, const std::string& reply) {
    EXPECT_EQ(tcp_->ask(request, reply), reply) << request;
  }
  std::string line_of(const std::string& request) {
    tcp_->send(request);
    return line(*tcp_);
  }
  // In a frame; the text of all replies.
  std::string ask(const Parts& parts) {
    put(parts);
    finish();
    return replies();
  }
  std::string ask(const std::string& text) { return ask(Parts{.text = text}); }
  void put(const Parts& parts) {
    source_.waiting.push_back(build(parts));
    server_of_packets_->turn();
  }
  void finish() {
    while (!source_.waiting.empty() || !server_of_packets_->idle()) server_of_packets_->turn();
  }
  std::string replies() {
    std::string text;
    for (const std::string& frame : source_.replies) {
      const auto read = built_frames::read(frame);
      if (!read) return "a wrong frame";
      text += read->text;
    }
    source_.replies.clear();
    return text;
  }
  // Whether the device has answered as expected.
  void expect_by_device(const std::string& text, const std::string& reply) {
    const uint64_t before = counts().by_device;
    EXPECT_EQ(ask(text), reply) << text;
    EXPECT_EQ(counts().by_device, before + 1) << text;
  }
  void flush() { ASSERT_TRUE(tree().flush()); }

  FakeDevice device_{5, uint64_t{1} << 28};
  PacketOptions packets_;
  net::LoopCounters counters_;
  std::atomic<bool> stops_{false};
  QueuedFrames source_;
  std::unique_ptr<TestClient> tcp_;
  std::unique_ptr<HeldDevice> packet_device_;
  std::optional<net::StorePackets> store_;
  std::optional<net::PacketServer> server_of_packets_;
  bool lost_ = false;
};

TEST_F(PacketItemsTest, GetsSeeWhatOtherClientsHaveChanged) {
  begin();
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
  tell("set k 5 0 5\r\nvalue\r\n", "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  flush();
  expect_by_device("get k\r\n", "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  tell("append k 0 0 1\r\n!\r\n", "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 5 6\r\nvalue!\r\nEND\r\n");
  flush();
  expect_by_device("get k\r\n", "VALUE k 5 6\r\nvalue!\r\nEND\r\n");
  tell("delete k\r\n", "DELETED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
  flush();
  expect_by_device("get k\r\n", "END\r\n");
  tell("set k 0 0 1\r\nx\r\n", "STORED\r\n");
  tell("set other 0 0 1\r\ny\r\n", "STORED\r\n");
  flush();
  tell("flush_all\r\n", "OK\r\n");
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
  tell("set k 0 0 1\r\nz\r\n", "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 1\r\nz\r\nEND\r\n");
  flush();
  expect_by_device("get k\r\n", "VALUE k 0 1\r\nz\r\nEND\r\n");
  expect_by_device("get other\r\n", "END\r\n");
  tell("flush_all 10\r\n", "OK\r\n");
  expect_by_device("get k\r\n", "VALUE k 0 1\r\nz\r\nEND\r\n");
  clock_.advance(11'000);
  EXPECT_EQ(ask("get k\r\n"), "END\r\n");
}

TEST_F(PacketItemsTest, VersionsExpiryAndFlagsAreThoseOfOtherClients) {
  begin();
  tell("set flags 4294967295 0 1\r\na\r\n", "STORED\r\n");
  tell("set expires 0 10 2\r\nbb\r\n", "STORED\r\n");
  tell("set both 7 10 3\r\nccc\r\n", "STORED\r\n");
  tell("set none 0 0 0\r\n\r\n", "STORED\r\n");
  flush();
  expect_by_device("get flags\r\n", "VALUE flags 4294967295 1\r\na\r\nEND\r\n");
  expect_by_device("get expires\r\n", "VALUE expires 0 2\r\nbb\r\nEND\r\n");
  expect_by_device("get both\r\n", "VALUE both 7 3\r\nccc\r\nEND\r\n");
  expect_by_device("get none\r\n", "VALUE none 0 0\r\n\r\nEND\r\n");
  // Of every length, behind both kinds of fields: the sums of frames are looked at by whoever
  // reads them.
  for (int bytes = 1; bytes < 40; ++bytes) {
    const std::string value(static_cast<size_t>(bytes), static_cast<char>('a' + bytes % 26));
    const std::string sized = std::to_string(bytes) + "\r\n" + value + "\r\n";
    tell("set plain 0 0 " + sized, "STORED\r\n");
    tell("set flagged 9 0 " + sized, "STORED\r\n");
    flush();
    expect_by_device("get plain\r\n", "VALUE plain 0 " + sized + "END\r\n");
    expect_by_device("get flagged\r\n", "VALUE flagged 9 " + sized + "END\r\n");
  }
  const std::string gets = ask("gets both\r\n");
  tell("gets both\r\n", gets);
  const size_t end = gets.find("\r\n");
  const size_t begin_of_version = gets.rfind(' ', end) + 1;
  const std::string version = gets.substr(begin_of_version, end - begin_of_version);
  tell("cas both 7 10 1 " + version + "\r\nd\r\n", "STORED\r\n");
  tell("cas both 7 10 1 " + version + "\r\ne\r\n", "EXISTS\r\n");
  tell("touch expires 100\r\n", "TOUCHED\r\n");
  EXPECT_EQ(ask("get both\r\n"), "VALUE both 7 1\r\nd\r\nEND\r\n");
  clock_.advance(11'000);
  EXPECT_EQ(ask("get both\r\n"), "END\r\n");
  EXPECT_EQ(ask("get expires\r\n"), "VALUE expires 0 2\r\nbb\r\nEND\r\n");
  flush();
  expect_by_device("get both\r\n", "END\r\n");
  expect_by_device("get expires\r\n", "VALUE expires 0 2\r\nbb\r\nEND\r\n");
  clock_.advance(100'000);
  EXPECT_EQ(ask("get expires\r\n"), "END\r\n");
}

// What meta commands know of an item changes with each get of it.
TEST_F(PacketItemsTest, WhatTheDeviceMustNotAnswerIsLeft) {
  begin();
  tell("set k 0 0 1\r\na\r\n", "STORED\r\n");
  tell("mg k s\r\n", "HD s1\r\n");
  tell("md k I\r\n", "HD\r\n");
  const std::string others = "\xff\1\2\3\4k";
  tell("set " + others + " 0 0 1\r\nb\r\n", "STORED\r\n");
  const std::string long_value(5000, 'v');
  tell("set long 0 0 5000\r\n" + long_value + "\r\n", "STORED\r\n");
  flush();
  const uint64_t before = counts().by_device;
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 1\r\na\r\nEND\r\n");
  EXPECT_EQ(ask("get " + others + "\r\n"), "VALUE " + others + " 0 1\r\nb\r\nEND\r\n");
  EXPECT_EQ(ask("get long\r\n"), "VALUE long 0 5000\r\n" + long_value + "\r\nEND\r\n");
  EXPECT_EQ(counts().by_device, before);
  // Counted by prefix.
  tell("set plain 0 0 1\r\np\r\n", "STORED\r\n");
  flush();
  expect_by_device("get plain\r\n", "VALUE plain 0 1\r\np\r\nEND\r\n");
  tell("stats detail on\r\n", "OK\r\n");
  EXPECT_EQ(ask("get plain\r\n"), "VALUE plain 0 1\r\np\r\nEND\r\n");
  EXPECT_EQ(counts().by_device, before + 1);
  tell("stats detail off\r\n", "OK\r\n");
  expect_by_device("get plain\r\n", "VALUE plain 0 1\r\np\r\nEND\r\n");
}

// An item that the device cannot take lies in host memory, and is absent on the device.
TEST_F(PacketItemsTest, MissesAreLeftWhileHostMemoryHasTheRest) {
  begin();
  const std::string long_key(65'535, 'k');
  expect({"SET", long_key, "1"}, "+OK\r\n");
  tell("set k 0 0 1\r\na\r\n", "STORED\r\n");
  flush();
  expect_by_device("get k\r\n", "VALUE k 0 1\r\na\r\nEND\r\n");
  const uint64_t before = counts().by_device;
  EXPECT_EQ(ask("get no\r\n"), "END\r\n");
  EXPECT_EQ(counts().by_device, before);
  expect({"DEL", long_key}, ":1\r\n");
  flush();
  expect({"GET", long_key}, "$-1\r\n");
  expect_by_device("get no\r\n", "END\r\n");
}

TEST_F(PacketItemsTest, AnswersOfWhatWasChangedMeanwhileDoNotCount) {
  begin();
  // Keys of one stripe, of which one is changed.
  const TreeOptions usual;
  const auto stripe = [&](const std::string& key) {
    return tree().hash_of(0, key) & (usual.stripes - 1);
  };
  int number = 0;
  while (stripe("n" + std::to_string(number)) != stripe("k")) ++number;
  const std::string neighbour = "n" + std::to_string(number);
  for (const bool taken_in : {false, true}) {
    tell("set k 0 0 3\r\nold\r\n", "STORED\r\n");
    tell("set " + neighbour + " 0 0 1\r\nn\r\n", "STORED\r\n");
    flush();
    packet_device_->held = true;
    source_.waiting.push_back(build({.text = "get " + neighbour + "\r\n"}));
    put({.text = "get k\r\n"});
    tell("set k 0 0 3\r\nnew\r\n", "STORED\r\n");
    if (taken_in) flush();
    const net::PacketCounts before = counts();
    packet_device_->held = false;
    finish();
    const std::string all = replies();
    EXPECT_NE(all.find("VALUE k 0 3\r\nnew\r\nEND\r\n"), std::string::npos) << all;
    EXPECT_NE(all.find("VALUE " + neighbour + " 0 1\r\nn\r\nEND\r\n"), std::string::npos) << all;
    EXPECT_EQ(counts().changed + counts().by_device - before.changed - before.by_device, 2u);
    EXPECT_GE(counts().changed - before.changed, 1u);
  }
  flush();
  packet_device_->held = true;
  put({.text = "get k\r\n"});
  tell("delete k\r\n", "DELETED\r\n");
  packet_device_->held = false;
  finish();
  EXPECT_EQ(replies(), "END\r\n");
  tell("set k 0 0 3\r\nold\r\n", "STORED\r\n");
  flush();
  packet_device_->held = true;
  put({.text = "get k\r\n"});
  tell("flush_all\r\n", "OK\r\n");
  packet_device_->held = false;
  finish();
  EXPECT_EQ(replies(), "END\r\n");
}

TEST_F(PacketItemsTest, CommandsMeanWhatTheyMeanByUdp) {
  begin();
  EXPECT_EQ(ask("set k 5 0 5\r\nvalue\r\n"), "STORED\r\n");
  tell("get k\r\n", "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("add k 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
  EXPECT_EQ(ask("set n 0 0 2 noreply\r\n10\r\n"), "");
  EXPECT_EQ(ask("incr n 5\r\n"), "15\r\n");
  EXPECT_EQ(ask("get k n m\r\n"), "VALUE k 5 5\r\nvalue\r\nVALUE n 0 2\r\n15\r\nEND\r\n");
  EXPECT_EQ(ask("get k\r\nget n\r\ndelete n\r\n"),
            "VALUE k 5 5\r\nvalue\r\nEND\r\nVALUE n 0 2\r\n15\r\nEND\r\nDELETED\r\n");
  EXPECT_EQ(ask("mg k v f\r\n"), "VA 5 f5\r\nvalue\r\n");
  EXPECT_EQ(ask(Parts{.text = "get k\r\n", .options = std::string(8, '\1')}),
            "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask(Parts{.v6 = true, .text = "get k\r\n"}), "VALUE k 5 5\r\nvalue\r\nEND\r\n");
  EXPECT_EQ(ask("version\r\n").substr(0, 8), "VERSION ");
  EXPECT_NE(ask("stats\r\n").find("STAT pid "), std::string::npos);
  EXPECT_EQ(ask("stats cachedump 1 10\r\n"), "SERVER_ERROR not over UDP\r\n");
  EXPECT_EQ(ask("nonsense\r\n"), "ERROR\r\n");
  EXPECT_EQ(ask("set half 0 0 10\r\nhal"), "");
  EXPECT_EQ(counters_.udp.truncated.get(), 1u);
  EXPECT_EQ(ask("flush_all\r\n"), "OK\r\n");
  tell("get k\r\n", "END\r\n");
  const std::string value(300'000, 'v');
  tell("set long 0 0 300000\r\n" + value + "\r\n", "STORED\r\n");
  std::string keys;
  std::string all;
  for (int i = 0; i < 4; ++i) {
    keys += " long";
    all += "VALUE long 0 300000\r\n" + value + "\r\n";
  }
  EXPECT_EQ(ask("get" + keys + "\r\n"), all + "END\r\n");
  EXPECT_EQ(ask("get" + keys + keys + "\r\n"), "SERVER_ERROR reply too large for UDP\r\n");
  // What comes twice is run once.
  source_.waiting = {build({.text = "incr k 1\r\n"}), build({.text = "set k 0 0 1\r\n1\r\n"}),
                     build({.text = "incr k 1\r\n"})};
  finish();
  EXPECT_EQ(replies(), "NOT_FOUND\r\nSTORED\r\n");
  EXPECT_EQ(counters_.udp.repeated.get(), 1u);
}

TEST_F(PacketItemsTest, TooManyLongRepliesAtOnceAreDropped) {
  begin();
  const std::string value(900'000, 'v');
  tell("set long 0 0 900000\r\n" + value + "\r\n", "STORED\r\n");
  for (int i = 0; i < 32; ++i) source_.waiting.push_back(build({.text = "get long\r\n"}));
  finish();
  const uint64_t answered = 32 - counters_.udp.unsent.get();
  EXPECT_EQ(answered, net::StorePackets::most_unsent / 900'000 + 1);
  const size_t datagrams = (900'000 + 25) / net::UdpFrame::payload_bytes + 1;
  EXPECT_EQ(source_.replies.size(), answered * datagrams);
}

// Many requests of several clients, in frames and by TCP, against a model.
TEST_F(PacketItemsTest, EveryAnswerIsWhatAModelSays) {
  options_.appendonly = true;
  options_.appendfsync = SyncPolicy::always;
  begin();
  std::mt19937_64 random(3);
  std::map<std::string, std::pair<std::string, uint32_t>> model;
  const auto shown = [&](const std::string& key) {
    const auto at = model.find(key);
    if (at == model.end()) return std::string("END\r\n");
    const auto& [value, flags] = at->second;
    return "VALUE " + key + ' ' + std::to_string(flags) + ' ' + std::to_string(value.size()) +
           "\r\n" + value + "\r\nEND\r\n";
  };
  uint16_t id = 0;
  for (uint64_t i = 0; i < test_size(poison::sanitized ? 600 : 1500, 30'000); ++i) {
    // A few requests that are on their way together, of a client, who sees them in order.
    const bool by_tcp = random() % 8 == 0;
    std::map<uint32_t, std::string> expected;
    for (uint64_t n = 1 + random() % 8; n != 0; --n) {
      const std::string key = (random() % 8 == 0 ? "\xffk" : "k") + std::to_string(random() % 12);
      std::string text = "get " + key + "\r\n";
      std::string answer = shown(key);
      if (const uint64_t kind = random() % 16; kind < 2) {
        const std::string value(random() % (kind == 0 ? 700 : 40), static_cast<char>('a' + i % 26));
        const auto flags = static_cast<uint32_t>(random() % 3);
        text = "set " + key + ' ' + std::to_string(flags);
        text += " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
        model[key] = {value, flags};
        answer = "STORED\r\n";
      } else if (kind == 2) {
        text = "delete " + key + "\r\n";
        answer = model.erase(key) != 0 ? "DELETED\r\n" : "NOT_FOUND\r\n";
      }
      if (by_tcp) {
        tell(text, answer);
      } else {
        source_.waiting.push_back(build({.id = ++id, .text = text}));
        expected[id] = answer;
      }
    }
    finish();
    std::map<uint32_t, std::string> answers;
    for (const std::string& frame : source_.replies) {
      const auto read = built_frames::read(frame);
      ASSERT_TRUE(read);
      answers[built_frames::number(read->header, 0)] += read->text;
    }
    source_.replies.clear();
    ASSERT_EQ(answers, expected);
    if (random() % 8 == 0) flush();
    clock_.advance(1);
  }
  EXPECT_GT(counts().by_device, 100u);
  EXPECT_GT(counts().by_cpu, 100u);
}

TEST_F(PacketItemsTest, FramesAreAnsweredWithoutTheGpu) {
  begin();
  tell("set gone 0 0 1\r\na\r\n", "STORED\r\n");
  flush();
  expect({"FLUSHALL"}, "+OK\r\n");
  flush();
  tell("set k 0 0 1\r\nb\r\n", "STORED\r\n");
  expect_by_device("get gone\r\n", "END\r\n");
  packet_device_->held = true;
  put({.text = "get k\r\n"});
  lost_ = true;
  device_.lose();
  packet_device_->held = false;
  finish();
  EXPECT_EQ(replies(), "VALUE k 0 1\r\nb\r\nEND\r\n");
  const uint64_t before = counts().by_device;
  EXPECT_EQ(ask("get gone\r\n"), "END\r\n");
  EXPECT_EQ(ask("set k 0 0 1\r\nc\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 1\r\nc\r\nEND\r\n");
  tell("get k\r\n", "VALUE k 0 1\r\nc\r\nEND\r\n");
  EXPECT_EQ(counts().by_device, before);
}

TEST_F(PacketItemsTest, GetsCountAsThoseOfOtherClients) {
  begin();
  tell("set k 0 0 1\r\na\r\n", "STORED\r\n");
  flush();
  const EngineStats before = server_->engine().stats();
  expect_by_device("get k\r\n", "VALUE k 0 1\r\na\r\nEND\r\n");
  expect_by_device("get no\r\n", "END\r\n");
  EXPECT_EQ(ask("get k k no\r\n"), "VALUE k 0 1\r\na\r\nVALUE k 0 1\r\na\r\nEND\r\n");
  const EngineStats after = server_->engine().stats();
  EXPECT_EQ(after.hits - before.hits, 3u);
  EXPECT_EQ(after.misses - before.misses, 2u);
  EXPECT_EQ(counters_.memcached.cmd_get.get(), 5u);
  EXPECT_EQ(counters_.memcached.get_misses.get(), 2u);
  EXPECT_EQ(counters_.udp.received.get(), 3u);
  EXPECT_EQ(counters_.udp.sent.get(), 3u);
  EXPECT_EQ(counters_.packets.by_device.get(), 2u);
  source_.waiting.push_back("no frame");
  finish();
  EXPECT_EQ(counters_.udp.malformed.get(), 1u);
}

TEST_F(PacketItemsTest, AThreadThatCannotBeginSaysSo) {
  begin();
  std::vector<std::unique_ptr<Worker>> all;
  const auto take_another = [&] { all.push_back(std::make_unique<Worker>(server_->engine())); };
  EXPECT_THROW(for (;;) take_another(), std::runtime_error);
  net::PacketThread thread(server_->state(), counters_, tree().make_packets(packets_),
                           std::make_unique<QueuedFrames>());
  EXPECT_THROW(thread.start(), std::runtime_error);
}

class BoundedPacketItemsTest : public PacketItemsTest {
 protected:
  BoundedPacketItemsTest() : PacketItemsTest(3) {}
};

TEST_F(BoundedPacketItemsTest, OnlyThoseWhoAreTrustedGetMuchMoreThanTheySend) {
  begin();
  const std::string value(200, 'v');
  tell("set k 0 0 200\r\n" + value + "\r\n", "STORED\r\n");
  flush();
  const std::string request = "get k" + std::string(20, ' ') + "\r\n";
  EXPECT_EQ(ask(request), "SERVER_ERROR reply too large for UDP\r\n");
  EXPECT_EQ(ask("get k\r\n"), "");
  EXPECT_EQ(counters_.udp.too_long.get(), 2u);
  server_->state().proven.add("10.0.0.1:1");
  EXPECT_EQ(ask("get k\r\n"), "VALUE k 0 200\r\n" + value + "\r\nEND\r\n");
}

}  // namespace
}  // namespace isotherm::packet_items_test
