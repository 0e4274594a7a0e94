// Commands that walk over a whole database, in steps between the turns of others.

#include "net/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/test_server.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::walk_test {
namespace {

// With the index on a device, or on the host.
class WalkTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int keys = poison::sanitized ? 3'000 : 10'000;

  WalkTest() {
    server_ = make_test_server(clock_, GetParam() ? &device_ : nullptr);
    server_->start();
    client_ = std::make_unique<TestClient>(server_->resp_port());
    other_ = std::make_unique<TestClient>(server_->resp_port());
  }

  void fill(const std::string& prefix, int count) {
    std::string requests;
    for (int i = 0; i < count; ++i) requests += resp({"SET", prefix + std::to_string(i), "1"});
    client_->send(requests);
    const size_t bytes = static_cast<size_t>(count) * 5;
    ASSERT_EQ(client_->receive(bytes).size(), bytes);
  }
  std::string line(TestClient& client) {
    const std::string text = client.receive_until("\r\n");
    return text.substr(0, text.size() - std::min<size_t>(text.size(), 2));
  }
  std::vector<std::string> array(TestClient& client) {
    const std::string head = line(client);
    std::vector<std::string> all;
    if (head.empty() || head[0] != '*') return all;
    for (int i = std::stoi(head.substr(1)); i > 0; --i) {
      line(client);
      all.push_back(line(client));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  std::vector<std::string> all_keys(const std::string& pattern) {
    client_->send(resp({"KEYS", pattern}));
    return array(*client_);
  }
  static void expect_all(const std::vector<std::string>& found, const std::string& prefix,
                         int count) {
    ASSERT_EQ(found.size(), static_cast<size_t>(count));
    std::vector<std::string> expected;
    for (int i = 0; i < count; ++i) expected.push_back(prefix + std::to_string(i));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected);
  }

  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{7, uint64_t{1} << 28};
  std::unique_ptr<Server> server_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<TestClient> other_;
};

// The loop looks at its other connections between two steps.
TEST_P(WalkTest, KeysTakesTurnsWithOthers) {
  if (GetParam()) GTEST_SKIP() << "others walk there";
  fill("k", keys);
  net::LoopControl& loop = *server_->state().threads.front();
  std::atomic<int> turns{0};
  std::atomic<bool> over{false};
  std::function<void()> count = [&] {
    ++turns;
    over ? void() : loop.post(count);
  };
  loop.post(count);
  while (turns == 0) std::this_thread::yield();
  const int before = turns;
  expect_all(all_keys("*"), "k", keys);
  EXPECT_GE(turns - before, keys / 500) << "a step shows some hundred at most";
  over = true;
  other_->ask("PING\r\n", "+PONG\r\n");
  other_->ask("PING\r\n", "+PONG\r\n");
}

TEST_P(WalkTest, KeysFindsWhatIsThereThroughoutAndEachOnce) {
  fill("stays:", keys / 4);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    TestClient client(server_->resp_port());
    for (int i = 0; !over || i < 300; ++i) {
      const std::string key = "comes:" + std::to_string(i);
      EXPECT_EQ(client.ask(resp({"SET", key, "1"}), "+OK\r\n"), "+OK\r\n");
      if (i % 3 != 0) continue;
      EXPECT_EQ(client.ask(resp({"DEL", key}), ":1\r\n"), ":1\r\n");
    }
  });
  for (int i = 0; i < 3; ++i) expect_all(all_keys("stays:*"), "stays:", keys / 4);
  over = true;
  writer.join();
  std::vector<std::string> all = all_keys("*");
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_P(WalkTest, ManyWalkAtOnce) {
  fill("k", keys / 4);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < 2 * net::Loop::walks_per_turn; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->resp_port()));
    clients.back()->send(resp({"KEYS", "*"}) + resp({"RANDOMKEY"}) +
                         resp({"SCAN", "0", "COUNT", "1000000"}) + "PING\r\n");
  }
  EXPECT_EQ(other_->ask(resp({"INCR", "k1"}), ":2\r\n"), ":2\r\n");
  for (auto& client : clients) {
    expect_all(array(*client), "k", keys / 4);
    EXPECT_EQ(line(*client).substr(0, 1), "$");
    EXPECT_EQ(line(*client).substr(0, 1), "k");
    EXPECT_EQ(line(*client), "*2");
    EXPECT_EQ(line(*client), "$1");
    EXPECT_EQ(line(*client), "0");
    expect_all(array(*client), "k", keys / 4);
    EXPECT_EQ(line(*client), "+PONG");
  }
}

// Each key has its chance, also the first of all.
TEST_P(WalkTest, ARandomKeyIsNoneThatComesOften) {
  fill("k", keys / 4);
  constexpr int asked = 400;
  std::map<std::string, int> seen;
  for (int i = 0; i < asked; ++i) {
    client_->send(resp({"RANDOMKEY"}));
    EXPECT_EQ(line(*client_).substr(0, 1), "$");
    ++seen[line(*client_)];
  }
  for (const auto& [key, times] : seen) EXPECT_LT(times, asked / 10) << key;
}

TEST_P(WalkTest, WhoLeavesMeanwhileIsForgotten) {
  fill("k", keys / 4);
  for (int i = 0; i < 5; ++i) {
    TestClient leaves(server_->resp_port());
    leaves.send(resp({"KEYS", "*"}) + resp({"KEYS", "*"}));
    if (i % 2 == 0)
      other_->ask(resp({"CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"}), ":2\r\n");
    if (i % 2 == 0) client_ = std::make_unique<TestClient>(server_->resp_port());
  }
  EXPECT_TRUE(soon([&] {
    other_->ask("PING\r\n", "+PONG\r\n");
    return server_->state().resp_clients == 2;
  }));
}

TEST_P(WalkTest, KeysBeginsAnewWhenTheDeviceIsLost) {
  if (!GetParam()) GTEST_SKIP() << "there is none";
  fill("k", keys / 2);
  device_.lose_after(3);
  expect_all(all_keys("*"), "k", keys / 2);
  EXPECT_FALSE(server_->engine().stats().on_device);
}

// The index on a device has the keys of all databases.
TEST_P(WalkTest, FewKeysAmongManyOfOtherDatabasesAreFoundSoon) {
  fill("k", keys);
  client_->ask(resp({"SELECT", "1"}) + resp({"SET", "only", "1"}), "+OK\r\n+OK\r\n");
  const auto batches = [&] { return server_->engine().stats().batches; };
  uint64_t before = batches();
  EXPECT_EQ(client_->ask(resp({"RANDOMKEY"}), "$4\r\nonly\r\n"), "$4\r\nonly\r\n");
  EXPECT_LT(batches() - before, keys / 500u);
  client_->ask(resp({"SELECT", "2"}), "+OK\r\n");
  before = batches();
  EXPECT_EQ(client_->ask(resp({"RANDOMKEY"}), "$-1\r\n"), "$-1\r\n");
  EXPECT_LE(batches() - before, 2u) << "there is none";
}

// What a walk has found so far is output of its client, whoever set which limit.
TEST_P(WalkTest, AnUnfinishedAnswerCountsAsOutput) {
  const std::string prefix(300, '.');
  constexpr int count = std::min(keys, 4'000);
  for (int i = 0; i < count; i += 100) fill(prefix + std::to_string(i) + ":", 100);
  const auto batches = [&] { return server_->engine().stats().batches; };
  const auto set = [&](const std::string& name, const std::string& value) {
    EXPECT_EQ(other_->ask(resp({"CONFIG", "SET", name, value}), "+OK\r\n"), "+OK\r\n");
  };
  const auto expect_ended_early = [&](const std::string& request) {
    TestClient client(server_->resp_port());
    client.ask("PING\r\n", "+PONG\r\n");
    const uint64_t before = batches();
    client.send(request);
    EXPECT_EQ(client.receive_all(), "") << request;
    EXPECT_LT(batches() - before, count / net::Walk::most_a_step * 3 / 4) << request;
  };
  const std::vector<std::string> requests{resp({"KEYS", "*"}),
                                          resp({"SCAN", "0", "COUNT", "1000000"})};
  set("client-output-buffer-limit", "normal 65536 0 0");
  for (const std::string& request : requests) expect_ended_early(request);
  set("client-output-buffer-limit", "normal 0 0 0");
  set("maxmemory-clients", std::to_string(server_->engine().client_bytes() + (32 << 10)));
  for (const std::string& request : requests) expect_ended_early(request);
  EXPECT_EQ(other_->ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
}

INSTANTIATE_TEST_SUITE_P(All, WalkTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "device" : "host");
});

// A batch that walks does nothing else.
TEST(WalkBatchTest, StepsShowAllAndOtherRowsAreRefused) {
  const ManualClock clock{1000};
  Engine engine({}, clock);
  Worker worker(engine);
  Batch batch;
  for (const char* key : {"a", "b", "c"}) batch.put(key, "1");
  worker.submit(batch);
  batch.clear();
  struct Visitor final : ItemVisitor {
    void visit(const ScanItem& item) override { keys += item.key; }
    std::string keys;
  } visitor;
  uint64_t cursor = 0;
  do {
    const Batch::Row row = batch.walk(cursor, 1, visitor);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(row).status, Status::ok);
    cursor = static_cast<uint64_t>(batch.reply(row).number);
    batch.clear();
  } while (cursor != 0);
  std::sort(visitor.keys.begin(), visitor.keys.end());
  EXPECT_EQ(visitor.keys, "abc");
  batch.walk(0, 1, visitor);
  batch.get("a");
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::invalid);
  EXPECT_EQ(visitor.keys.size(), 3u);
}

}  // namespace
}  // namespace isotherm::walk_test
