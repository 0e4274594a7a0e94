// A server whose loop finds no memory, at each allocation in turn: the client concerned is answered
// or disconnected, and others are served all the same.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/failing_memory.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::no_memory_server_test {
namespace {

class NoMemoryServerTest : public ::testing::Test {
 protected:
  NoMemoryServerTest() {
    net::ServerOptions options;
    options.port = options.memcached_port = 0;
    options.threads = 1;
    server_ = std::make_unique<Server>(options, clock_);
    server_->start();
  }

  void by_loop(const std::function<void()>& work) {
    std::promise<void> done;
    server_->state().threads.front()->post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void end_failing() {
    if (!memory_) return;
    failed_ = FailingMemory::failed();
    memory_.reset();
  }
  // `use` is called with the loop's memory failing at each allocation in turn, until it fails no
  // more.
  void try_all(const std::function<void()>& use) {
    bool failed = true;
    int tries = 0;
    for (; failed && !HasFailure(); ++tries) {
      by_loop([&] { memory_.emplace(tries); });
      use();
      by_loop([&] { end_failing(); });
      failed = failed_;
      TestClient other(server_->resp_port());
      ASSERT_EQ(other.ask(resp({"PING"}), "+PONG\r\n"), "+PONG\r\n") << tries;
    }
    EXPECT_GT(tries, 5) << "nothing allocates";
    // Of all that were disconnected nothing is left but the one that asks.
    TestClient other(server_->resp_port());
    while (server_->state().resp_clients + server_->state().memcached_clients != 1) {
      ASSERT_EQ(other.ask(resp({"PING"}), "+PONG\r\n"), "+PONG\r\n");
    }
  }
  // A client asks, and reads until there is an end.
  static std::string ask(uint16_t port, const std::string& request) {
    TestClient client(port);
    client.send(request);
    return client.receive_all();
  }

  const std::string long_value_ = std::string(20'000, 'v');
  const std::string large_value_ = std::string(200'000, 'l');
  ManualClock clock_{1'700'000'000'000};
  std::optional<FailingMemory> memory_;  // of the loop's thread
  bool failed_ = false;                  // it has
  std::unique_ptr<Server> server_;
};

TEST_F(NoMemoryServerTest, Requests) {
  std::string request;
  for (int i = 0; i < 30; ++i) {
    request += resp({"SET", "key" + std::to_string(i), long_value_});
    request += resp({"GET", "key" + std::to_string(i / 2)});
  }
  request += resp({"MSET", "a", "1", "b", large_value_}) + resp({"MGET", "a", "b", "c"}) +
             resp({"GET", "b"}) + resp({"QUIT"});
  try_all([&] { ask(server_->resp_port(), request); });
}

TEST_F(NoMemoryServerTest, GroupsAreWholeOrNotThere) {
  const uint16_t port = server_->resp_port();
  int number = 1000;
  const auto bulk = [](const std::string& text) { return "$4\r\n" + text + "\r\n"; };
  // What both have; empty: they differ.
  const auto both = [&](const std::string& one, const std::string& other) -> std::string {
    const std::string got = ask(port, resp({"MGET", one, other}) + resp({"QUIT"}));
    for (int at = number; at >= 1000; --at) {
      const std::string its = bulk(std::to_string(at));
      if (got.starts_with("*2\r\n" + its + its)) return std::to_string(at);
    }
    return got.starts_with("*2\r\n$-1\r\n$-1\r\n") ? "none" : "";
  };
  try_all([&] {
    const std::string text = std::to_string(++number);
    ask(port, resp({"WATCH", "c"}) + resp({"MULTI"}) + resp({"SET", "x", text}) +
                  resp({"SET", "y", text}) + resp({"EXEC"}) + resp({"MSET", "u", text, "w", text}) +
                  resp({"QUIT"}));
    by_loop([&] { end_failing(); });
    EXPECT_NE(both("x", "y"), "") << text;
    EXPECT_NE(both("u", "w"), "") << text;
  });
  EXPECT_EQ(both("x", "y"), std::to_string(number));
  EXPECT_EQ(both("u", "w"), std::to_string(number));
}

TEST_F(NoMemoryServerTest, CommandsThatRunAlone) {
  std::string request;
  for (int i = 0; i < 10; ++i) request += resp({"SET", "key" + std::to_string(i), "value"});
  request += resp({"KEYS", "*"}) + resp({"SCAN", "0", "COUNT", "100"}) + resp({"INFO"}) +
             resp({"CONFIG", "GET", "*"}) + resp({"CLIENT", "LIST"}) + resp({"DBSIZE"}) +
             resp({"COMMAND", "DOCS"}) + resp({"FLUSHALL"}) + resp({"QUIT"});
  try_all([&] { ask(server_->resp_port(), request); });
}

TEST_F(NoMemoryServerTest, Memcached) {
  const std::string request =
      "set a 0 0 200000\r\n" + large_value_ + "\r\nget a\r\nset b 0 0 20000\r\n" + long_value_ +
      "\r\ngets a b c\r\nmg b v t f k\r\nms c 1 T0\r\nx\r\nincr c 1\r\nstats\r\nstats "
      "slabs\r\nstats sizes\r\nquit\r\n";
  try_all([&] { ask(server_->memcached_port(), request); });
}

}  // namespace
}  // namespace isotherm::no_memory_server_test
