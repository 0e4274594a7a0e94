// A server whose device stands still while the test says so: who waits, and who does not.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::slow_device_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;

class SlowDeviceTest : public ::testing::Test {
 protected:
  ~SlowDeviceTest() override {
    open_all();
    server_.reset();
  }

  Server& start(net::ServerOptions options = {}) {
    options.port = options.memcached_port = 0;
    options.threads = 1;
    options.store.gpu_values = 1 << 20;
    options.store.gpu_values_from = 100;
    if (options.store.gpu_threads == 0) options.store.gpu_threads = 2;
    server_ = std::make_unique<Server>(options, clock_, gated_root_tiers_maker(device_, gates_));
    server_->start();
    return *server_;
  }
  void open_all() {
    gates_.rounds.open();
    gates_.values.open();
  }

  // The loop has looked at its sockets since.
  void pass_turns() {
    for (int i = 0; i < 3; ++i) {
      std::promise<void> passed;
      server_->state().threads.front()->post([&] { passed.set_value(); });
      passed.get_future().wait();
    }
  }

  static void ask(TestClient& client, const std::string& request, const std::string& expected) {
    EXPECT_EQ(client.ask(request, expected), expected) << request;
  }
  // For what another client has asked for, which may still run.
  static void ask_until(TestClient& client, const std::string& request,
                        const std::string& expected) {
    EXPECT_TRUE(soon([&] { return client.ask(request, expected) == expected; }))
        << request << " is never answered by " << expected;
  }
  static std::string bulk(const std::string& value) {
    return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  }

  // Stores a value that then lies on the device.
  void store_away(TestClient& client, const std::string& key) {
    ask(client, resp({"SET", key, long_value}), "+OK\r\n");
    ask(client, resp({"SET", "other", "x"}), "+OK\r\n");
    soon([&] {
      ask(client, resp({"SET", "other", "x"}), "+OK\r\n");
      return server_->engine().stats().values.to_device != 0;
    });
    ASSERT_EQ(server_->engine().stats().values.to_device, 1u);
  }

  const std::string long_value = std::string(1000, 'v');
  ManualClock clock_{1'700'000'000'000};
  DeviceGates gates_;
  FakeDevice device_{7, device_bytes};
  std::unique_ptr<Server> server_;
};

TEST_F(SlowDeviceTest, WhoAsksForAValueOnTheDeviceKeepsNobodyElseWaiting) {
  Server& server = start();
  TestClient slow(server.resp_port());
  store_away(slow, "cold");
  gates_.values.close();
  slow.send(resp({"SET", "before", "1"}) + resp({"GET", "cold"}) + resp({"SET", "cold", "new"}));
  gates_.values.wait_for(1);
  // The next ones wait in the socket.
  slow.send(resp({"GET", "cold"}) + resp({"PING"}));

  constexpr int others = 49;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < others; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
  }
  for (int round = 0; round < 3; ++round) {
    const std::string value = std::to_string(round);
    for (auto& client : clients) client->send(resp({"SET", "k", value}) + resp({"GET", "k"}));
    for (auto& client : clients) {
      EXPECT_EQ(client->receive(12), "+OK\r\n" + bulk(value));
    }
  }
  // Commands without rows, and what the slow client's turn has changed.
  ask(*clients[0], "PING\r\n", "+PONG\r\n");
  ask(*clients[0], resp({"MGET", "before", "cold"}), "*2\r\n$1\r\n1\r\n$3\r\nnew\r\n");
  ask(*clients[0], resp({"APPEND", "before", "2"}), ":2\r\n");

  gates_.values.open();
  const std::string replies = "+OK\r\n" + bulk(long_value) + "+OK\r\n" + bulk("new") + "+PONG\r\n";
  EXPECT_EQ(slow.receive(replies.size()), replies);
}

// Others need as many turns beside one that asks for values on the device as without it.
TEST_F(SlowDeviceTest, OthersNeedNoMoreTurnsBesideOneThatWaits) {
  Server& server = start();
  TestClient slow(server.resp_port());
  store_away(slow, "cold");
  constexpr int others = 49;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < others; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
  }
  const auto turns = [&] {
    const uint64_t before = server.state().statistics()[net::LoopCount::batches];
    for (auto& client : clients) ask(*client, resp({"GET", "other"}), bulk("x"));
    return server.state().statistics()[net::LoopCount::batches] - before;
  };
  EXPECT_EQ(turns(), static_cast<uint64_t>(others));
  gates_.values.close();
  slow.send(resp({"GET", "cold"}));
  gates_.values.wait_for(1);
  pass_turns();
  EXPECT_EQ(turns(), static_cast<uint64_t>(others)) << "one waits";
  // What it asks besides has turns of its own.
  slow.send(resp({"SET", "next", "1"}) + resp({"GET", "cold"}));
  ask_until(*clients[0], resp({"EXISTS", "next"}), ":1\r\n");
  pass_turns();
  EXPECT_EQ(turns(), static_cast<uint64_t>(others)) << "its next request waits, too";
  gates_.values.open();
  const std::string replies = bulk(long_value) + "+OK\r\n" + bulk(long_value);
  EXPECT_EQ(slow.receive(replies.size()), replies);
}

TEST_F(SlowDeviceTest, AnswersKeepTheirOrderAroundACommandThatRunsAlone) {
  Server& server = start();
  TestClient slow(server.resp_port());
  TestClient other(server.resp_port());
  store_away(slow, "cold");
  gates_.values.close();
  slow.send(resp({"GET", "cold"}) + resp({"FLUSHALL"}) + resp({"GET", "cold"}) + resp({"DBSIZE"}));
  gates_.values.wait_for(1);
  pass_turns();
  // That of others runs at once. The flush runs beside the loop, on a thread for the device.
  ask(other, resp({"GET", "none"}), "$-1\r\n");
  ask_until(other, resp({"DBSIZE"}), ":0\r\n");
  ask(other, resp({"KEYS", "*"}), "*0\r\n");
  gates_.values.open();
  const std::string replies = bulk(long_value) + "+OK\r\n$-1\r\n:0\r\n";
  EXPECT_EQ(slow.receive(replies.size()), replies);
}

// A step of it waits for its turn at the device.
TEST_F(SlowDeviceTest, NobodyWaitsForAWalkButWhoAskedForIt) {
  Server& server = start();
  TestClient slow(server.resp_port());
  TestClient walker(server.resp_port());
  TestClient other(server.resp_port());
  ask(slow, resp({"SET", "k", "1"}), "+OK\r\n");
  gates_.rounds.close();
  slow.send(resp({"INCR", "k"}));
  gates_.rounds.wait_for(1);
  walker.send(resp({"KEYS", "*"}) + "PING\r\n");
  for (int i = 0; i < 3; ++i) {
    ask(other, "PING\r\n", "+PONG\r\n");
    ask(other, resp({"DBSIZE"}), ":1\r\n");
    pass_turns();
  }
  EXPECT_FALSE(walker.has_input());
  gates_.rounds.open();
  const std::string keys = "*1\r\n" + bulk("k") + "+PONG\r\n";
  EXPECT_EQ(walker.receive(keys.size()), keys);
  EXPECT_EQ(slow.receive(4), ":2\r\n");
}

TEST_F(SlowDeviceTest, AClientThatLeavesWithRowsUnderWayIsForgottenBehindThem) {
  Server& server = start();
  {
    TestClient slow(server.resp_port());
    store_away(slow, "cold");
    gates_.values.close();
    slow.send(resp({"GET", "cold"}));
    gates_.values.wait_for(1);
  }
  TestClient other(server.resp_port());
  ask(other, resp({"GET", "other"}), bulk("x"));
  // Nor does it help to kill it.
  ask(other, resp({"CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"}), ":1\r\n");
  ask(other, resp({"GET", "other"}), bulk("x"));
  gates_.values.open();
  EXPECT_TRUE(soon([&] {
    ask(other, resp({"GET", "other"}), bulk("x"));
    return server.state().resp_clients == 1;
  }));
}

// The batch is small, so the loop's own thread has begun its round.
TEST_F(SlowDeviceTest, TheLoopGoesOnWhileItsSmallBatchWaitsForTheDevice) {
  Server& server = start();
  TestClient slow(server.resp_port());
  TestClient other(server.resp_port());
  ASSERT_TRUE(soon([&] {
    ask(slow, resp({"SET", "k", "1"}), "+OK\r\n");
    return server.engine().stats().quick_batches >= 5;
  }));
  gates_.rounds.close();
  slow.send(resp({"INCR", "k"}));
  gates_.rounds.wait_for(1);
  for (int i = 0; i < 3; ++i) ask(other, "PING\r\n", "+PONG\r\n");
  other.send(resp({"INCR", "k"}));
  pass_turns();
  gates_.rounds.open();
  const std::string first = slow.receive(4);
  EXPECT_EQ(first + other.receive(4), first == ":2\r\n" ? ":2\r\n:3\r\n" : ":3\r\n:2\r\n");
}

// Several turns are under way, then the queue is full, and nothing is read from sockets.
TEST_F(SlowDeviceTest, SocketsAreNotReadWhileTheQueueIsFull) {
  net::ServerOptions options;
  options.store.gpu_threads = 1;
  options.store.gpu_queue = 2;
  Server& server = start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
    ask(*clients.back(), "PING\r\n", "+PONG\r\n");
  }
  gates_.rounds.close();
  // More than the quick path takes.
  std::string many;
  for (int i = 0; i < 100; ++i) many += resp({"INCR", "n"});
  clients[0]->send(many);
  gates_.rounds.wait_for(1);
  // Two more batches wait, and the next finds no place. What comes then is not read.
  const std::string request = resp({"INCR", "n"});
  uint64_t bytes = server.state().statistics()[net::LoopCount::bytes_in];
  for (size_t i = 1; i < clients.size(); ++i) {
    clients[i]->send(request);
    if (i <= 3) {
      bytes += request.size();
      while (server.state().statistics()[net::LoopCount::bytes_in] != bytes)
        std::this_thread::yield();
    }
    pass_turns();
    EXPECT_EQ(server.engine().stats().queue_full, i < 3 ? 0u : 1u);
  }
  TestClient late(server.resp_port());
  late.send(resp({"INCR", "n"}));
  pass_turns();
  EXPECT_EQ(server.state().statistics()[net::LoopCount::bytes_in], bytes);
  EXPECT_EQ(server.engine().stats().queue_full, 1u) << "the loop waits until it is told";
  gates_.rounds.open();
  for (auto& client : clients) EXPECT_EQ(client->receive(4).substr(0, 1), ":");
  EXPECT_EQ(late.receive(6).substr(0, 3), ":10") << "before the others, or behind them";
  ask(late, resp({"GET", "n"}), "$3\r\n106\r\n");
  late.send(resp({"INFO", "batches"}) + resp({"QUIT"}));
  const uint64_t retried = server.engine().stats().retried;
  EXPECT_GE(retried, 1u);
  EXPECT_NE(late.receive_all().find("\r\nbatch_retries:" + std::to_string(retried) + "\r\n"),
            std::string::npos);
}

TEST_F(SlowDeviceTest, TheServerStopsBehindWhatIsUnderWay) {
  Server& server = start();
  TestClient slow(server.resp_port());
  store_away(slow, "cold");
  gates_.values.close();
  slow.send(resp({"GET", "cold"}));
  gates_.values.wait_for(1);
  std::thread opens([&] { open_all(); });
  server.stop();
  opens.join();
  const std::string reply = bulk(long_value);
  EXPECT_EQ(slow.receive(reply.size()), reply);
  EXPECT_TRUE(slow.ended());
}

}  // namespace
}  // namespace isotherm::slow_device_test
