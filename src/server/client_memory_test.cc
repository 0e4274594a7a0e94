// What clients with unfinished requests of very many tiny words take, and that it is bounded.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::client_memory_test {
namespace {

class ClientMemoryTest : public ::testing::Test {
 protected:
  ClientMemoryTest() {
    net::ServerOptions options;
    options.port = options.memcached_port = 0;
    options.threads = 1;
    server_ = std::make_unique<Server>(options, clock_);
    server_->start();
  }

  // About so many bytes of words of one byte; returns when the server has read all.
  void send_words(TestClient& client, size_t bytes) {
    std::string words;
    while (words.size() < bytes) words += "$1\r\na\r\n";
    const uint64_t all = received() + words.size();
    client.send(words);
    for (int i = 0; i < 12'000 && received() < all; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  uint64_t received() const { return server_->state().total(&net::LoopCounters::bytes_in); }
  uint64_t evicted() const { return server_->state().total(&net::LoopCounters::evicted_clients); }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Server> server_;
};

TEST_F(ClientMemoryTest, AnUnfinishedRequestTakesNoMoreThanItsBytes) {
  TestClient client(server_->resp_port());
  TestClient other(server_->resp_port());
  client.send("*1000000\r\n$4\r\nMSET\r\n");
  send_words(client, 1 << 20);
  EXPECT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
  EXPECT_LE(server_->engine().client_bytes(), uint64_t{5} << 19);
}

}  // namespace
}  // namespace isotherm::client_memory_test
