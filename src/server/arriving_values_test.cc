// Several clients that send long values at a time, which together would take too much of the cap.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "net/loop/arrival_wait.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::arriving_values_test {
namespace {

TEST(ArrivalWait, GoesOnWhileBytesComeButNotForEver) {
  net::ArrivalWait wait;
  EXPECT_TRUE(wait.goes_on(0, 100));
  EXPECT_TRUE(wait.goes_on(1'999, 100));
  EXPECT_FALSE(wait.goes_on(2'000, 100)) << "others have stopped";
  EXPECT_TRUE(wait.goes_on(2'500, 101));
  for (int64_t ms = 4'000; ms < 20'000; ms += 1'000) {
    EXPECT_TRUE(wait.goes_on(ms, static_cast<uint64_t>(ms)));
  }
  EXPECT_FALSE(wait.goes_on(20'000, 30'000)) << "others send all the time";
  wait.end();
  EXPECT_TRUE(wait.goes_on(20'000, 30'000)) << "another value";
}

class ArrivingValuesTest : public ::testing::Test {
 protected:
  ArrivingValuesTest() : server_(options(), clock_) { server_.start(); }
  static net::ServerOptions options() {
    net::ServerOptions options;
    options.port = options.memcached_port = 0;
    options.threads = 1;
    options.store.maxmemory = 16 << 20;
    options.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
    return options;
  }
  // Sends half of a request, and returns when the server has received that.
  void send_half(TestClient& client) {
    client.send(std::string_view(request_).substr(0, half));
    EXPECT_TRUE(soon([&] { return received() >= half; }));
  }
  std::string send_rest(TestClient& client) {
    return client.ask(std::string_view(request_).substr(half), "+OK\r\n");
  }
  // All of it, by another thread.
  std::future<std::string> send_all(TestClient& client) {
    return std::async(std::launch::async, [&] { return client.ask(request_, "+OK\r\n"); });
  }
  uint64_t received() { return server_.state().total(net::LoopCount::bytes_in); }

  // More than two of them are more than half the cap.
  const std::string request_ = resp({"SET", "key", std::string(5 << 20, 'v')});
  static constexpr size_t half = 2 << 20;
  ManualClock clock_{1'700'000'000'000};
  Server server_;
};

TEST_F(ArrivingValuesTest, AValueWaitsForThoseThatOthersSend) {
  server_.state().limits.clients = 1 << 20;
  TestClient first(server_.resp_port()), second(server_.resp_port()), other(server_.resp_port());
  send_half(first);
  std::future<std::string> answer = send_all(second);
  EXPECT_TRUE(soon([&] { return received() > half; }));
  EXPECT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n") << "nobody else waits";
  EXPECT_EQ(server_.engine().arrivals().announced, uint64_t{5} << 20);
  EXPECT_EQ(send_rest(first), "+OK\r\n");
  EXPECT_EQ(answer.get(), "+OK\r\n");
  EXPECT_EQ(server_.state().total(net::LoopCount::evicted_clients), 0u);
}

TEST_F(ArrivingValuesTest, AValueDoesNotWaitForAClientThatStops) {
  TestClient first(server_.resp_port()), second(server_.resp_port());
  send_half(first);
  std::future<std::string> answer = send_all(second);
  EXPECT_TRUE(soon([&] {
    clock_.advance(1'000);
    return answer.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
  }));
  EXPECT_EQ(answer.get(), "+OK\r\n");
  EXPECT_EQ(send_rest(first), "+OK\r\n");
}

}  // namespace
}  // namespace isotherm::arriving_values_test
