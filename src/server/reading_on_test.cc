// A connection whose row waits: its next requests are read and run, as far as none of them could
// pass one before it, and all replies leave in order.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "fake_device/fake_root_table.h"
#include "fake_device/gated_root_table.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/held_keys.h"
#include "models/key_latches.h"
#include "models/test_server.h"
#include "net/loop/aside.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::reading_on_test {
namespace {

std::string bulk(const std::string& value) {
  return "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

// With the index on a device, or on the host.
class ReadingOnTest : public ::testing::TestWithParam<bool> {
 protected:
  ReadingOnTest() {
    server_ = make_test_server(clock_, GetParam() ? &device_ : nullptr);
    for (size_t i = 0; i < most_keys; ++i) latches_.add(std::to_string(i));
    server_->engine().set_row_gate(&latches_);
    server_->start();
    client_ = std::make_unique<TestClient>(server_->resp_port());
    other_ = std::make_unique<TestClient>(server_->resp_port());
  }
  ~ReadingOnTest() override {
    latches_.open_all();
    server_.reset();
  }

  // Sends a request whose row waits, and returns when it does.
  void send_waiting(const std::string& request, const std::string& key = "slow") {
    const size_t before = latches_[key].waiters();
    client_->send(request);
    while (latches_[key].waiters() == before) pass_turns();
    pass_turns();
  }
  // The loop has looked at its sockets since, and all is answered that can be.
  void pass_turns() {
    for (int i = 0; i < 3; ++i) {
      std::promise<void> passed;
      server_->state().threads.front()->post([&] { passed.set_value(); });
      passed.get_future().wait();
      other_->ask(resp({"GET", "none"}), "$-1\r\n");
    }
  }
  std::string look(const std::string& key, const std::string& expected) {
    return other_->ask(resp({"GET", key}), expected);
  }
  // Until the key has that value: something else has stored it.
  void wait_for(const std::string& key, const std::string& value) {
    EXPECT_TRUE(soon([&] {
      if (other_->ask(resp({"EXISTS", key}), ":1\r\n") == ":0\r\n") return false;
      return look(key, bulk(value)) == bulk(value);
    })) << key
        << " is not " << value;
  }
  void expect_replies(const std::string& replies) {
    EXPECT_EQ(client_->receive(replies.size()), replies);
  }
  uint64_t bytes_in() { return server_->state().statistics()[net::LoopCount::bytes_in]; }

  static constexpr size_t most_keys = 2 * net::Asides::most;
  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{7, uint64_t{1} << 28};
  KeyLatches latches_{"slow", "slow 1", "slow 2", "slow 3", "a slow key that is long"};
  std::unique_ptr<Server> server_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<TestClient> other_;
};

TEST_P(ReadingOnTest, NextRequestsRunAndTheirRepliesWait) {
  send_waiting(resp({"APPEND", "slow", "1"}));
  client_->send(resp({"SET", "a", "1"}) + resp({"INCR", "n"}));
  wait_for("a", "1");
  client_->send("PING\r\n" + resp({"MSET", "b", "2", "c", "3"}));
  wait_for("c", "3");
  pass_turns();
  EXPECT_FALSE(client_->has_input());
  latches_["slow"].open();
  expect_replies(":1\r\n+OK\r\n:1\r\n+PONG\r\n+OK\r\n");
  client_->send(resp({"GET", "slow"}));
  expect_replies(bulk("1"));
}

// A large value is no key, and may have no bytes: those of one that is refused are dropped.
TEST_P(ReadingOnTest, AValueThatIsRefusedPassesWhatWaits) {
  server_->engine().set_maxmemory(3 << 20);
  // So many that they are looked up by hash.
  send_waiting(
      resp({"DEL", "slow", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b1", "b2", "b3",
            "b4",  "b5",   "b6", "k",  "l",  "m",  "n",  "o",  "p",  "q",  "r",  "s",  "t"}));
  const std::string large = resp({"SET", "large", std::string(4 << 20, 'v')});
  constexpr size_t first = 100'000;
  client_->send(large.substr(0, first));
  pass_turns();
  client_->send(large.substr(first) + resp({"SET", "a", "1"}));
  wait_for("a", "1");
  latches_.open_all();
  expect_replies(":0\r\n-OOM command not allowed when used memory > 'maxmemory'.\r\n+OK\r\n");
}

TEST_P(ReadingOnTest, RowsThatWaitMayEndInAnyOrder) {
  send_waiting(resp({"SET", "slow 1", "1"}), "slow 1");
  send_waiting(resp({"GET", "a"}) + resp({"SET", "slow 2", "2"}), "slow 2");
  client_->send(resp({"SET", "a", "1"}));
  wait_for("a", "1");
  send_waiting(resp({"GET", "a"}) + resp({"APPEND", "slow 3", "345"}), "slow 3");
  client_->send(resp({"GET", "a"}));
  latches_["slow 2"].open();
  wait_for("slow 2", "2");
  latches_["slow 3"].open();
  wait_for("slow 3", "345");
  EXPECT_FALSE(client_->has_input());
  latches_["slow 1"].open();
  expect_replies("+OK\r\n$-1\r\n+OK\r\n+OK\r\n" + bulk("1") + ":3\r\n" + bulk("1"));
}

TEST_P(ReadingOnTest, ARequestOnAKeyThatWaitsIsNotRunAndNorIsWhatIsBehindIt) {
  for (const std::string& request :
       {resp({"GET", "slow"}), resp({"SET", "slow", "2"}), resp({"MGET", "x", "slow"}),
        resp({"RENAME", "slow", "slow"}), resp({"OBJECT", "ENCODING", "slow"}),
        resp({"BITOP", "AND", "to", "slow"}), resp({"FLUSHALL"}), resp({"FLUSHDB"}),
        resp({"DBSIZE"}), resp({"KEYS", "nothing"}), resp({"SCAN", "0", "MATCH", "nothing"}),
        resp({"RANDOMKEY"}), resp({"INFO", "keyspace"}), resp({"EXEC"}),
        resp({"CONFIG", "SET", "timeout", "0"})}) {
    ASSERT_EQ(other_->ask(resp({"DEL", "a", "b"}), ":0\r\n").substr(0, 1), ":");
    send_waiting(resp({"GETDEL", "slow"}));
    client_->send(resp({"SET", "a", "1"}) + request + resp({"SET", "b", "1"}));
    wait_for("a", "1");
    // Nor when more comes.
    client_->send(resp({"ECHO", "end of it"}));
    pass_turns();
    EXPECT_EQ(look("b", "$-1\r\n"), "$-1\r\n") << request;
    latches_["slow"].open();
    const std::string replies = client_->receive_until("end of it\r\n");
    EXPECT_EQ(replies.substr(0, 10), "$-1\r\n+OK\r\n") << request;
    other_->ask(resp({"DEL", "slow"}), ":0\r\n");
    latches_["slow"].close();
  }
}

TEST_P(ReadingOnTest, WhatCommandsDoToTheirConnectionTheyDoInOrder) {
  send_waiting(resp({"GET", "slow"}));
  client_->send(resp({"SELECT", "1"}) + resp({"SET", "a", "of 1"}) +
                resp({"CLIENT", "REPLY", "SKIP"}) + resp({"SET", "a", "new"}));
  client_->send(resp({"HELLO", "3", "SETNAME", "me"}) + resp({"GET", "none"}) +
                resp({"SELECT", "0"}) + resp({"SET", "b", "of 0"}));
  wait_for("b", "of 0");
  client_->send(resp({"QUIT"}) + resp({"SET", "b", "never"}));
  pass_turns();
  EXPECT_FALSE(client_->has_input());
  latches_["slow"].open();
  const std::string all = client_->receive_all();
  EXPECT_EQ(all.substr(0, 15), "$-1\r\n+OK\r\n+OK\r\n");
  const std::string end = "_\r\n+OK\r\n+OK\r\n+OK\r\n";
  EXPECT_EQ(all.substr(all.size() - end.size()), end);
  look("b", bulk("of 0"));
}

// Words of inline requests lie elsewhere than others.
TEST_P(ReadingOnTest, WhatRequestsBorrowStaysWhereItIs) {
  const std::string key = "a slow key that is long";
  send_waiting("SET \"" + key + "\" \"a value that is long, too\"\r\n", key);
  for (int i = 0; i < 20; ++i) {
    client_->send("SET a \"" + std::string(100, 'a' + i) +
                  "\"\r\nECHO \"what others wait for\"\r\n");
    client_->send(resp({"SET", "b", std::string(100, 'a' + i)}));
  }
  const std::string large(200'000, 'l');
  client_->send(resp({"SET", "large", large}));
  wait_for("large", large);
  latches_[key].open();
  std::string replies = "+OK\r\n";
  for (int i = 0; i < 20; ++i) replies += "+OK\r\n$20\r\nwhat others wait for\r\n+OK\r\n";
  expect_replies(replies + "+OK\r\n");
  client_->send(resp({"GET", key}));
  expect_replies(bulk("a value that is long, too"));
}

TEST_P(ReadingOnTest, NoMoreIsReadThanBoundsAllow) {
  // Turns that wait.
  std::string replies;
  for (size_t i = 0; i < most_keys; ++i) {
    client_->send(resp({"SET", std::to_string(i), "value"}));
    replies += "+OK\r\n";
    pass_turns();
  }
  size_t waiting = 0;
  for (size_t i = 0; i < most_keys; ++i) waiting += latches_[std::to_string(i)].waiters();
  EXPECT_EQ(waiting, net::Asides::most);
  for (size_t i = 0; i < most_keys; ++i) latches_[std::to_string(i)].open();
  expect_replies(replies);
  // Output that cannot be written yet.
  const std::string text(10'000, 't');
  send_waiting(resp({"SET", "slow", "1"}));
  replies = "+OK\r\n";
  const uint64_t before = bytes_in();
  uint64_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string echo = resp({"ECHO", text});
    client_->send(echo);
    sent += echo.size();
    replies += bulk(text);
    if (i < 2) {
      while (bytes_in() < before + sent) pass_turns();
    }
  }
  pass_turns();
  EXPECT_LT(bytes_in(), before + 2 * net::output_bound);
  EXPECT_LT(bytes_in(), before + sent);
  latches_["slow"].open();
  expect_replies(replies);
}

// All that they show must be sent, so there are few.
TEST_P(ReadingOnTest, FewReadsOfLongValuesRunBehindARowThatWaits) {
  const std::string value(30'000, 'v');
  client_->send(resp({"SET", "long", value}) + resp({"GET", "long"}));
  expect_replies("+OK\r\n" + bulk(value));
  send_waiting(resp({"SET", "slow", "1"}));
  const uint64_t hits = server_->engine().stats().hits;
  std::string requests, replies = "+OK\r\n";
  for (int i = 0; i < 20; ++i) {
    requests += resp({"GET", "long"});
    replies += bulk(value);
  }
  client_->send(requests);
  EXPECT_TRUE(soon([&] {
    pass_turns();
    return server_->engine().stats().hits != hits;
  }));
  pass_turns();
  const uint64_t ran = server_->engine().stats().hits - hits;
  const uint64_t at_once = net::reads_before_change(value.size());
  EXPECT_LE(ran * value.size(), net::output_bound + at_once * value.size());
  latches_["slow"].open();
  expect_replies(replies);
}

// The bound on what is shown holds back nothing that shows nothing.
TEST_P(ReadingOnTest, ChangesRunBehindAReadOfALongValueThatWaits) {
  latches_.open_all();
  const std::string value(100'000, 'v');
  client_->send(resp({"SET", "slow", value}) + resp({"GET", "slow"}));
  expect_replies("+OK\r\n" + bulk(value));
  latches_.close_all();
  send_waiting(resp({"GET", "slow"}) + resp({"SET", "a", "1"}));
  wait_for("a", "1");
  client_->send(resp({"SET", "b", "1"}) + resp({"INCR", "b"}) + resp({"GETDEL", "a"}));
  wait_for("b", "2");
  EXPECT_FALSE(client_->has_input());
  latches_["slow"].open();
  expect_replies(bulk(value) + "+OK\r\n+OK\r\n:2\r\n" + bulk("1"));
}

TEST_P(ReadingOnTest, AClientThatLeavesOrIsKilledIsForgottenBehindItsRows) {
  send_waiting(resp({"SET", "slow 1", "1"}), "slow 1");
  send_waiting(resp({"SET", "slow 2", "1"}), "slow 2");
  client_->send(resp({"SET", "a", "1"}));
  wait_for("a", "1");
  ASSERT_EQ(other_->ask(resp({"CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"}), ":1\r\n"),
            ":1\r\n");
  pass_turns();
  EXPECT_EQ(client_->receive_all(), "");
  client_ = std::make_unique<TestClient>(server_->resp_port());
  send_waiting(resp({"SET", "slow 3", "1"}), "slow 3");
  client_->send(resp({"SET", "b", "1"}));
  wait_for("b", "1");
  client_.reset();
  pass_turns();
  EXPECT_EQ(server_->state().resp_clients, 3u);
  latches_["slow 2"].open();
  wait_for("slow 2", "1");
  latches_.open_all();
  EXPECT_TRUE(soon([&] {
    pass_turns();
    return server_->state().resp_clients == 1;
  }));
}

// Whoever sends without reading, in pieces of any size, gets what one gets who asks one by one.
TEST_P(ReadingOnTest, RandomRequestsAreAnsweredAsIfNothingWaited) {
  constexpr int rounds = poison::sanitized ? 20 : 60;
  const std::array<std::string, 5> keys{"slow", "slow 1", "slow 2", "a", "b"};
  std::array<int64_t, 5> numbers{};
  std::mt19937 random(11);
  for (int round = 0; round < rounds; ++round) {
    std::string replies;
    for (int piece = 0; piece < 12; ++piece) {
      std::string requests;
      for (uint32_t i = random() % 4 + 1; i > 0; --i) {
        const size_t at = random() % keys.size();
        const bool reads = random() % 2 == 0 && numbers[at] != 0;
        requests += resp({reads ? "GET" : "INCR", keys[at]});
        if (!reads) ++numbers[at];
        const std::string number = std::to_string(numbers[at]);
        replies += reads ? bulk(number) : ":" + number + "\r\n";
      }
      const size_t cut = random() % requests.size();
      client_->send(requests.substr(0, cut));
      if (random() % 3 == 0) pass_turns();
      client_->send(requests.substr(cut));
      if (random() % 3 == 0) pass_turns();
      AwaitedLatch& latch = latches_[keys[random() % 3]];
      random() % 2 == 0 ? latch.open() : latch.close();
    }
    std::promise<std::string> received;
    std::thread reader([&] { received.set_value(client_->receive(replies.size())); });
    auto all = received.get_future();
    while (all.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      latches_.open_all();
      pass_turns();
    }
    reader.join();
    latches_.close_all();
    ASSERT_EQ(all.get(), replies);
  }
}

TEST_P(ReadingOnTest, ClientsThatSpeakMemcachedToo) {
  client_ = std::make_unique<TestClient>(server_->memcached_port());
  send_waiting("set slow 0 0 1\r\n1\r\n");
  client_->send("set a 0 0 1\r\n1\r\nget a\r\n");
  wait_for("a", "1");
  client_->send("set large 0 0 100000\r\n" + std::string(100'000, 'l') + "\r\nversion\r\n");
  wait_for("large", std::string(100'000, 'l'));
  client_->send("set b 0 0 1\r\n2\r\ngets b slow\r\nset a 0 0 1\r\n3\r\n");
  wait_for("b", "2");
  pass_turns();
  EXPECT_EQ(look("a", bulk("1")), bulk("1"));
  EXPECT_FALSE(client_->has_input());
  latches_["slow"].open();
  expect_replies("STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\nVERSION ");
  const std::string rest = client_->receive_until("END\r\nSTORED\r\n");
  EXPECT_NE(rest.find("\r\nSTORED\r\nVALUE b 0 1 "), std::string::npos) << rest;
  EXPECT_NE(rest.find("VALUE slow 0 1 "), std::string::npos) << rest;
  latches_["slow"].close();

  send_waiting("append slow 0 0 1\r\n2\r\n");
  client_->send("incr a 1\r\n");
  client_->send("flush_all\r\n");
  client_->send("incr a 1\r\nquit\r\n");
  wait_for("a", "4");
  pass_turns();
  EXPECT_EQ(look("a", bulk("4")), bulk("4"));
  latches_["slow"].open();
  EXPECT_EQ(client_->receive_all(), "STORED\r\n4\r\nOK\r\nNOT_FOUND\r\n");
}

// As many values are waited for as may be shown; what shows none goes on.
TEST_P(ReadingOnTest, ChangesOfMemcachedsClientsPassManyReadsThatWait) {
  client_ = std::make_unique<TestClient>(server_->memcached_port());
  std::string get = "get";
  for (int i = 0; i < 64; ++i) get += " slow";
  send_waiting(get + "\r\n");
  client_->send("set a 0 0 1\r\n1\r\nincr a 1\r\nset b 0 0 1\r\n1\r\n");
  wait_for("b", "1");
  EXPECT_EQ(look("a", bulk("2")), bulk("2"));
  // A get stays, and what is behind it.
  client_->send("get c\r\nset c 0 0 1\r\n1\r\n");
  pass_turns();
  EXPECT_EQ(look("c", "$-1\r\n"), "$-1\r\n");
  EXPECT_FALSE(client_->has_input());
  latches_["slow"].open();
  expect_replies("END\r\nSTORED\r\n2\r\nSTORED\r\nEND\r\nSTORED\r\n");
}

// Its keys are a group's of another thread, which stands still.
TEST_P(ReadingOnTest, TheLoopGoesOnWhileAGroupWaitsForItsKeys) {
  HeldKeys held(server_->engine(), {"a"}, "0");
  const auto settle = [&] {
    for (int i = 0; i < 3; ++i) pass_turns();
  };
  client_->send(resp({"MSETNX", "a", "1", "b", "1"}));
  settle();
  TestClient third(server_->resp_port());
  third.send(resp({"APPEND", "a", "3"}));
  settle();
  EXPECT_EQ(look("b", "$-1\r\n"), "$-1\r\n");
  EXPECT_EQ(other_->ask(resp({"MSET", "c", "1", "d", "1"}), "+OK\r\n"), "+OK\r\n");
  client_->send(resp({"INCR", "n"}));
  wait_for("n", "1");
  EXPECT_FALSE(client_->has_input());
  held.let_go();
  expect_replies(":0\r\n:1\r\n");
  EXPECT_EQ(third.receive(4), ":2\r\n");
}

// A flush that waits for a group's keys has no key itself, and yet nothing passes it.
TEST_P(ReadingOnTest, NothingPassesAFlushThatWaits) {
  HeldKeys held(server_->engine(), {"a"}, "0");
  // In a turn without others, which would wait with it.
  const uint64_t before = bytes_in();
  client_->send(resp({"FLUSHALL"}));
  while (bytes_in() == before) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) pass_turns();
  EXPECT_FALSE(client_->has_input());
  client_->send(resp({"SET", "x", "1"}));
  for (int i = 0; i < 3; ++i) pass_turns();
  EXPECT_EQ(look("x", "$-1\r\n"), "$-1\r\n");
  held.let_go();
  expect_replies("+OK\r\n+OK\r\n");
  EXPECT_EQ(client_->ask(resp({"GET", "x"}), bulk("1")), bulk("1"));
}

INSTANTIATE_TEST_SUITE_P(All, ReadingOnTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "device" : "host");
});

// Rows that have run, and whose replies wait, keep nothing of their key from running.
TEST(ReadingOnWithheldTest, RequestsRunBehindRepliesThatWait) {
  const ManualClock clock{1'700'000'000'000};
  net::ServerOptions options;
  options.port = options.memcached_port = 0;
  options.threads = 1;
  ChangeLog log;
  Server server(options, clock);
  server.engine().set_commit_sink(&log);
  log.withholds = true;
  server.start();
  TestClient client(server.resp_port());
  TestClient other(server.resp_port());
  const auto wait_for = [&](size_t waiters) {
    while (log.waiters() < waiters) ASSERT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
  };
  client.send(resp({"APPEND", "key", "1"}));
  wait_for(1);
  client.send(resp({"APPEND", "key", "2"}));
  wait_for(2);
  client.send(resp({"GET", "key"}));
  wait_for(3);
  EXPECT_FALSE(client.has_input());
  log.let_go();
  EXPECT_EQ(client.receive(16), ":1\r\n:2\r\n$2\r\n12\r\n");
  log.open();
}

}  // namespace
}  // namespace isotherm::reading_on_test
