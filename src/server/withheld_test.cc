// A server whose replies wait until a sink says that what they show is safe: who waits, and that
// nobody else does.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "fake_device/fake_root_table.h"
#include "models/change_log.h"
#include "models/test_server.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::withheld_test {
namespace {

// With the index on a device, or on the host.
class WithheldServerTest : public ::testing::TestWithParam<bool> {
 protected:
  WithheldServerTest() {
    server_ = make_test_server(clock_, GetParam() ? &device_ : nullptr);
    server_->engine().set_commit_sink(&log_);
    log_.withholds = true;
    server_->start();
  }
  ~WithheldServerTest() override {
    log_.open();
    server_.reset();
  }

  // Sends the request, and sees that its reply waits though others are answered; then lets it go.
  void expect_withheld(TestClient& client, const std::string& request, const std::string& reply,
                       uint64_t waiters = 1) {
    TestClient other(server_->resp_port());
    client.send(request);
    do {
      ASSERT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
    } while (log_.waiters() < waiters);
    ASSERT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
    EXPECT_FALSE(client.has_input()) << request;
    // More of it stays where it is, and nothing is written on that occasion.
    client.send("\r\n");
    ASSERT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
    EXPECT_FALSE(client.has_input()) << request;
    log_.let_go();
    EXPECT_EQ(client.receive(reply.size()), reply) << request;
  }

  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{7, uint64_t{1} << 28};
  ChangeLog log_;
  std::unique_ptr<Server> server_;
};

TEST_P(WithheldServerTest, RepliesWaitAndNobodyElseDoes) {
  TestClient client(server_->resp_port());
  expect_withheld(client, resp({"SET", "key", "1"}), "+OK\r\n");
  // Reads wait, too: what they show must be safe.
  expect_withheld(client, resp({"GET", "key"}), "$1\r\n1\r\n");
  expect_withheld(client, resp({"SET", "a", "2"}) + resp({"GET", "a"}) + "PING\r\n",
                  "+OK\r\n$1\r\n2\r\n+PONG\r\n");
  expect_withheld(client, resp({"MSETNX", "a", "1", "b", "2"}), ":0\r\n");
}

TEST_P(WithheldServerTest, CommandsThatRunAloneWaitToo) {
  TestClient client(server_->resp_port());
  expect_withheld(client, resp({"SET", "key", "1"}), "+OK\r\n");
  expect_withheld(client, resp({"DBSIZE"}), ":1\r\n");
  expect_withheld(client, resp({"FLUSHALL"}), "+OK\r\n");
  EXPECT_TRUE(log_.entries().empty());
  expect_withheld(client, resp({"GET", "key"}), "$-1\r\n");
}

TEST_P(WithheldServerTest, OthersGoOnAndAreAnsweredInTheirOwnTime) {
  TestClient first(server_->resp_port());
  TestClient second(server_->resp_port());
  first.send(resp({"APPEND", "key", "1"}));
  TestClient other(server_->resp_port());
  while (log_.waiters() != 1) ASSERT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
  expect_withheld(second, resp({"APPEND", "key", "2"}), ":2\r\n", 2);
  EXPECT_EQ(first.receive(4), ":1\r\n");
  EXPECT_EQ(log_.errors(), std::vector<std::string>{});
}

TEST_P(WithheldServerTest, ServersThatSpeakMemcachedToo) {
  TestClient client(server_->memcached_port());
  expect_withheld(client, "set key 0 0 1\r\n1\r\n", "STORED\r\n");
  log_.open();
  EXPECT_EQ(client.ask("get key\r\n", "ERROR\r\n"), "ERROR\r\n") << "the empty line";
}

// With a cap what others free meanwhile is used again.
TEST_P(WithheldServerTest, TheMemoryOfALongValueThatIsGoneIsTold) {
  log_.open();
  TestClient client(server_->resp_port());
  const std::string value(1'000'000, 'v');
  client.ask(resp({"CONFIG", "SET", "maxmemory", "100mb"}), "+OK\r\n");
  client.ask(resp({"SET", "long", value}) + resp({"APPEND", "long", "1"}), "+OK\r\n:1000001\r\n");
  const std::string usage = resp({"MEMORY", "USAGE", "long"});
  client.send(usage);
  const std::string bytes = client.receive(std::string(":1000000\r\n").size());
  EXPECT_EQ(bytes.front(), ':');
  log_.close();
  TestClient waiting(server_->resp_port());
  waiting.send(resp({"SET", "first", "value"}) + usage);
  while (log_.waiters() != 1) client.ask("PING\r\n", "+PONG\r\n");
  client.send(resp({"DEL", "long"}));
  while (log_.waiters() != 2) std::this_thread::yield();
  TestClient other(server_->resp_port());
  for (int turn = 0; turn < 100; ++turn) other.ask("PING\r\n", "+PONG\r\n");
  log_.let_go();
  EXPECT_EQ(waiting.receive(5 + bytes.size()), "+OK\r\n" + bytes);
}

INSTANTIATE_TEST_SUITE_P(All, WithheldServerTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "device" : "host");
});

}  // namespace
}  // namespace isotherm::withheld_test
