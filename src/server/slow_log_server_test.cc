// The slow log of a whole server, whose long values never lie in its input.
#include <gtest/gtest.h>

#include <string>

#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::slow_log_server_test {
namespace {

TEST(SlowLogServerTest, OfALongValueItHasTheLength) {
  net::ServerOptions options;
  options.port = options.memcached_port = 0;
  options.threads = 1;
  options.slowlog_log_slower_than = 0;
  ManualClock clock(1'700'000'000'000);
  Server server(options, clock);
  server.start();
  TestClient client(server.resp_port());
  const std::string request = resp({"SET", "key", std::string(5 << 20, 'v')});
  client.send(std::string_view(request).substr(0, 1 << 20));
  ASSERT_TRUE(soon([&] { return server.state().total(net::LoopCount::bytes_in) >= 1 << 20; }));
  client.send(std::string_view(request).substr(1 << 20));
  EXPECT_EQ(client.ask("GET other\r\n", "+OK\r\n$-1\r\n"), "+OK\r\n$-1\r\n");
  EXPECT_EQ(client.ask("SLOWLOG LEN\r\n", ":2\r\n"), ":2\r\n");
  client.send("SLOWLOG GET 3\r\n");
  const std::string words = client.receive_until("... (5242880 more bytes)\r\n");
  EXPECT_NE(words.find("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$24\r\n"), std::string::npos) << words;
  EXPECT_NE(words.find("$3\r\nGET\r\n$5\r\nother\r\n"), std::string::npos) << words;
}

}  // namespace
}  // namespace isotherm::slow_log_server_test
