// Transactions of clients beside one another: none is seen in halves, none is built on what has
// changed, and what is kept for EXEC has its limit. What EXEC answers is in tests/scripts/resp.
// Where the rules "guards" or "groups" (base/broken.h) are broken, tests here fail.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/held_keys.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::transaction_test {
namespace {

const std::string ok = "+OK\r\n";
const std::string queued = "+QUEUED\r\n";
const std::string changed = "*-1\r\n";
const std::string multi = resp({"MULTI"});
const std::string exec = resp({"EXEC"});

std::string bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

std::string line(TestClient& client) { return client.receive_until("\r\n"); }

// With the index on a device, or on the host.
class TransactionTest : public ::testing::TestWithParam<bool> {
 protected:
  TransactionTest() {
    options_.port = options_.memcached_port = 0;
    options_.threads = 2;
    server_ = GetParam()
                  ? std::make_unique<Server>(options_, clock_, fake_root_tiers_maker(device_))
                  : std::make_unique<Server>(options_, clock_);
    server_->start();
  }

  // On a thread for each client; they are over the server's threads.
  template <class Work>
  void beside_one_another(int clients, Work&& work) {
    std::vector<std::thread> threads;
    for (int number = 0; number < clients; ++number) {
      threads.emplace_back([&, number] {
        TestClient client(server_->resp_port());
        work(number, client);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{7, uint64_t{1} << 28};
  net::ServerOptions options_;
  std::unique_ptr<Server> server_;
};

TEST_P(TransactionTest, NothingHappensWhereAWatchedKeyHasChanged) {
  TestClient one(server_->resp_port());
  TestClient other(server_->resp_port());
  for (const std::string& change :
       {resp({"SET", "key", "2"}), resp({"APPEND", "key", "1"}), resp({"PEXPIRE", "key", "99999"}),
        resp({"DEL", "key"}), resp({"FLUSHALL"}), resp({"RENAME", "key", "x"})}) {
    EXPECT_EQ(one.ask(resp({"SET", "key", "1"}) + resp({"WATCH", "none", "key"}), ok + ok),
              ok + ok);
    other.send(change);
    line(other);
    const std::string done = multi + resp({"SET", "done", "1"}) + exec;
    EXPECT_EQ(one.ask(done, ok + queued + changed), ok + queued + changed) << change;
    EXPECT_EQ(other.ask(resp({"EXISTS", "done"}), ":0\r\n"), ":0\r\n") << change;
  }
}

TEST_P(TransactionTest, CountersByCompareAndSwapLoseNothing) {
  constexpr int clients = 8;
  constexpr int each = poison::sanitized ? 10 : 40;
  beside_one_another(clients, [](int, TestClient& client) {
    for (int done = 0; done < each;) {
      client.send(resp({"WATCH", "n"}) + resp({"GET", "n"}));
      ASSERT_EQ(line(client), ok);
      const std::string size = line(client);
      const int64_t n = size == "$-1\r\n" ? 0 : std::stoll(line(client));
      client.send(multi + resp({"SET", "n", std::to_string(n + 1)}) + exec);
      ASSERT_EQ(client.receive(ok.size() + queued.size()), ok + queued);
      const std::string head = line(client);
      if (head == changed) continue;
      ASSERT_EQ(head, "*1\r\n");
      ASSERT_EQ(line(client), ok);
      ++done;
    }
  });
  TestClient client(server_->resp_port());
  const std::string all = bulk(std::to_string(clients * each));
  EXPECT_EQ(client.ask(resp({"GET", "n"}), all), all);
}

// Amounts go from key to key, with much between; whoever looks in a transaction sees none that is
// on its way. All numbers have seven digits, so replies have one length.
TEST_P(TransactionTest, NobodySeesHalfOfOne) {
  constexpr int rounds = poison::sanitized ? 10 : 60;
  constexpr int keys = 4;
  constexpr int deep = 4;
  constexpr int between = 100;
  constexpr int64_t amount = 5'000'000;
  constexpr size_t bulk_bytes = 13;
  TestClient filler(server_->resp_port());
  for (int key = 0; key < keys; ++key) {
    ASSERT_EQ(filler.ask(resp({"SET", std::to_string(key), std::to_string(amount)}), ok), ok);
  }
  const auto move = [](TestClient& client, int round) {
    std::string pipeline;
    for (int i = 0; i < deep; ++i) {
      pipeline += multi + resp({"DECRBY", std::to_string((round + i) % keys), "7"});
      for (int j = 0; j < between; ++j) pipeline += resp({"GET", std::to_string(j) + "none"});
      pipeline += resp({"INCRBY", std::to_string((round + 2 * i + 1) % keys), "7"}) + exec;
    }
    client.send(pipeline);
    const size_t replies = ok.size() + (between + 2) * queued.size() + 6 + 2 * 10 + between * 5;
    return client.receive(deep * replies).size() == deep * replies;
  };
  const auto look = [](TestClient& client) {
    client.send(multi + resp({"MGET", "0", "1"}) + resp({"GET", "2"}) + resp({"GET", "3"}) + exec);
    const std::string head = ok + queued + queued + queued + "*3\r\n*2\r\n";
    if (client.receive(head.size()) != head) return int64_t{-1};
    int64_t sum = 0;
    for (int key = 0; key < keys; ++key) sum += std::stoll(client.receive(bulk_bytes).substr(4));
    return sum;
  };
  beside_one_another(6, [&](int number, TestClient& client) {
    for (int round = 0; round < rounds; ++round) {
      if (number % 2 == 0) {
        ASSERT_TRUE(move(client, number + round));
      } else {
        for (int i = 0; i < 2 * deep; ++i) ASSERT_EQ(look(client), keys * amount);
      }
    }
  });
}

// A group of another thread has one of its keys.
TEST_P(TransactionTest, ItWaitsForKeysThatAnotherHasAndOthersGoOn) {
  TestClient one(server_->resp_port());
  TestClient other(server_->resp_port());
  EXPECT_EQ(one.ask(resp({"SET", "a", "1"}) + resp({"WATCH", "a"}), ok + ok), ok + ok);
  HeldKeys held(server_->engine(), {"a"});
  EXPECT_EQ(one.ask(multi + resp({"SET", "b", "1"}), ok + queued), ok + queued);
  one.send(exec + resp({"INCR", "n"}));
  EXPECT_EQ(other.ask(resp({"GET", "b"}), "$-1\r\n"), "$-1\r\n");
  EXPECT_EQ(other.ask(resp({"SET", "c", "1"}), ok), ok);
  held.let_go();
  EXPECT_EQ(one.receive(changed.size() + 4), changed + ":1\r\n");
  EXPECT_EQ(other.ask(resp({"GET", "b"}), "$-1\r\n"), "$-1\r\n");
}

// A group has one of its keys; the other is changed meanwhile. It looks at both behind that.
TEST_P(TransactionTest, LcsLooksAtBothKeysAtOnce) {
  TestClient one(server_->resp_port());
  TestClient other(server_->resp_port());
  ASSERT_EQ(one.ask(resp({"MSET", "a", "old", "b", "old"}), ok), ok);
  HeldKeys held(server_->engine(), {"a"});
  const auto batches = [&] { return server_->engine().stats().batches; };
  const uint64_t before = batches();
  one.send(resp({"LCS", "a", "b"}));
  while (batches() == before) std::this_thread::yield();
  EXPECT_EQ(other.ask(resp({"SET", "b", "new"}), ok), ok);
  held.let_go();
  EXPECT_EQ(one.receive(bulk("new").size()), bulk("new"));
}

// What is kept counts like what is received and not parsed, and is counted as memory.
TEST_P(TransactionTest, WhatIsKeptHasTheLimitOfReceivedBytes) {
  TestClient one(server_->resp_port());
  TestClient other(server_->resp_port());
  ASSERT_EQ(other.ask(resp({"CONFIG", "SET", "client-query-buffer-limit", "1mb"}), ok), ok);
  const std::string value(200'000, 'x');
  const uint64_t before = server_->engine().stats().buffer_bytes;
  ASSERT_EQ(one.ask(multi, ok), ok);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(one.ask(resp({"SET", "key", value}), queued), queued) << i;
  }
  // It is told of behind the reply, and not of every byte.
  const auto bytes = [&] { return server_->engine().stats().buffer_bytes; };
  while (bytes() < before + 4 * value.size()) std::this_thread::yield();
  // DISCARD gives it back.
  ASSERT_EQ(one.ask(resp({"DISCARD"}) + multi, ok + ok), ok + ok);
  while (bytes() >= before + 4 * value.size()) std::this_thread::yield();
  for (int i = 0; i < 6 && one.ask(resp({"SET", "key", value}), queued) == queued; ++i) {
  }
  one.send(resp({"PING"}));
  EXPECT_EQ(one.receive_all(), "");
  EXPECT_EQ(server_->state().statistics()[net::LoopCount::over_query_limit], 1u);
  EXPECT_EQ(other.ask(resp({"EXISTS", "key"}), ":0\r\n"), ":0\r\n");
}

TEST_P(TransactionTest, AFullStoreKeepsNothingForExec) {
  TestClient one(server_->resp_port());
  TestClient other(server_->resp_port());
  ASSERT_EQ(one.ask(resp({"SET", "key", std::string(3'000'000, 'x')}), ok), ok);
  ASSERT_EQ(one.ask(multi + resp({"SET", "a", "1"}), ok + queued), ok + queued);
  ASSERT_EQ(other.ask(multi + resp({"GET", "key"}), ok + queued), ok + queued);
  ASSERT_EQ(one.ask(resp({"WATCH"}), "-ERR w").substr(0, 4), "-ERR");
  line(one);
  ASSERT_EQ(one.ask(resp({"DISCARD"}) + multi + resp({"SET", "a", "1"}), ok + ok + queued),
            ok + ok + queued);
  TestClient third(server_->resp_port());
  ASSERT_EQ(third.ask(resp({"CONFIG", "SET", "maxmemory", "1mb"}), ok), ok);
  const std::string full = "OOM command not allowed when used memory > 'maxmemory'.\r\n";
  const std::string aborted = "-EXECABORT Transaction discarded because of: " + full;
  EXPECT_EQ(one.ask(exec, aborted), aborted) << "a write is among them";
  EXPECT_EQ(one.ask(multi + resp({"GET", "a"}), ok + "-" + full), ok + "-" + full);
  const std::string failed = "-EXECABORT Transaction discarded because of previous errors.\r\n";
  EXPECT_EQ(one.ask(exec, failed), failed);
  // Reads that were kept before are run.
  other.send(exec);
  EXPECT_EQ(line(other), "*1\r\n");
  EXPECT_EQ(line(other), "$3000000\r\n");
}

INSTANTIATE_TEST_SUITE_P(All, TransactionTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "device" : "host");
});

}  // namespace
}  // namespace isotherm::transaction_test
