// What clients with unfinished requests of very many tiny words take, and that it is bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::client_memory_test {
namespace {

class ClientMemoryTest : public ::testing::Test {
 protected:
  static net::ServerOptions one_thread() {
    net::ServerOptions options;
    options.port = options.memcached_port = 0;
    options.threads = 1;
    return options;
  }
  ClientMemoryTest() : server_(std::make_unique<Server>(one_thread(), clock_)) { server_->start(); }

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
  void by_loop(const std::function<void()>& work) {
    std::promise<void> done;
    loop().post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  net::LoopControl& loop() { return *server_->state().threads.front(); }
  // Looks between each two turns, until it is told to end.
  void watch_peak() {
    peak_ = std::max(peak_, server_->engine().client_bytes());
    if (watches_) loop().post([this] { watch_peak(); });
  }
  // What all clients take at most once each of so many has sent `text`, which the loop gets in one
  // turn.
  uint64_t peak_with(std::vector<std::unique_ptr<TestClient>>& clients, const std::string& text) {
    const uint64_t all = received() + clients.size() * text.size();
    std::promise<void> sent;
    loop().post([&] {
      sent.get_future().wait();
      watch_peak();
    });
    for (auto& client : clients) client->send(text);
    sent.set_value();
    while (received() < all) std::this_thread::yield();
    by_loop([&] { watches_ = false; });
    by_loop([] {});
    return peak_;
  }

  std::vector<std::unique_ptr<TestClient>> make_clients(size_t count) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<TestClient>(server_->resp_port()));
      EXPECT_EQ(clients.back()->ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
    }
    return clients;
  }
  uint64_t received() const { return server_->state().total(net::LoopCount::bytes_in); }
  uint64_t evicted() const { return server_->state().total(net::LoopCount::evicted_clients); }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Server> server_;
  uint64_t peak_ = 0;    // of the loop's thread
  bool watches_ = true;  // likewise
};

TEST_F(ClientMemoryTest, AnUnfinishedRequestTakesNoMoreThanItsBytes) {
  TestClient client(server_->resp_port());
  TestClient other(server_->resp_port());
  client.send("*1000000\r\n$4\r\nMSET\r\n");
  send_words(client, 1 << 20);
  EXPECT_EQ(other.ask("PING\r\n", "+PONG\r\n"), "+PONG\r\n");
  EXPECT_LE(server_->engine().client_bytes(), uint64_t{5} << 19);
}

// Each asks for less than is worth a look.
TEST_F(ClientMemoryTest, ManySmallInputsInOneTurnStayWithinTheBound) {
  constexpr uint64_t bound = 1 << 20;
  auto clients = make_clients(200);
  server_->state().limits.clients = bound;
  EXPECT_LE(peak_with(clients, "*2\r\n$3\r\nGET\r\n$16000\r\n" + std::string(12'000, 'k')),
            bound + (bound >> 2));
  EXPECT_GT(evicted(), 100u);
}

// Those who read what they are sent are not disconnected for it.
TEST_F(ClientMemoryTest, ManyRepliesInOneTurnStayWithinTheBound) {
  constexpr uint64_t bound = 1 << 20;
  auto clients = make_clients(100);
  const std::string value(4000, 'v');
  const std::string reply = "$4000\r\n" + value + "\r\n";
  EXPECT_EQ(clients[0]->ask(resp({"SET", "k", value}), "+OK\r\n"), "+OK\r\n");
  server_->state().limits.clients = bound;
  const std::string get = resp({"GET", "k"});
  EXPECT_LE(peak_with(clients, get + get + get + get + get), bound + (bound >> 2));
  for (auto& client : clients) {
    EXPECT_EQ(client->receive(5 * reply.size()), reply + reply + reply + reply + reply);
  }
  EXPECT_EQ(evicted(), 0u);
}

// Its workers are all taken.
TEST(ServerThreadsTest, AThreadThatCannotBeginIsAnErrorOfTheStart) {
  const ManualClock clock(1'700'000'000'000);
  net::ServerOptions options;
  options.port = options.memcached_port = 0;
  Server server(options, clock);
  std::vector<std::unique_ptr<Worker>> all;
  const auto take_another = [&] { all.push_back(std::make_unique<Worker>(server.engine())); };
  EXPECT_THROW(for (;;) take_another(), std::runtime_error);
  EXPECT_THROW(server.start(), std::runtime_error);
}

}  // namespace
}  // namespace isotherm::client_memory_test
