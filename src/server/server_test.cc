#include "server/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "items/poison.h"
#include "net/buffer_pool.h"
#include "server/test_client.h"

namespace isotherm::server_test {
namespace {

class ServerTest : public ::testing::Test {
 protected:
  Server& start(net::ServerOptions options = {}) {
    options.port = options.memcached_port = 0;
    if (options.threads == 0) options.threads = 1;
    server_ = std::make_unique<Server>(options, clock_);
    server_->start();
    return *server_;
  }

  std::string ask(TestClient& client, const std::string& request, const std::string& expected) {
    const std::string reply = client.ask(request, expected);
    EXPECT_EQ(reply, expected);
    return reply;
  }

  // Requests that keep a loop busy for a while, and their replies.
  static std::pair<std::string, std::string> long_pipeline() {
    std::pair<std::string, std::string> both;
    for (int i = 0; i < 20'000; ++i) {
      both.first += resp({"SET", "k", "v"});
      both.second += "+OK\r\n";
    }
    return both;
  }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersOnBothPorts) {
  Server& server = start();
  TestClient redis(server.resp_port());
  TestClient memcached(server.memcached_port());
  ask(redis, resp({"SET", "k", "value"}), "+OK\r\n");
  ask(memcached, "get k\r\n", "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  ask(memcached, "set m 7 0 1\r\nx\r\n", "STORED\r\n");
  ask(redis, resp({"GET", "m"}), "$1\r\nx\r\n");
}

TEST_F(ServerTest, TimeIsTheClocks) {
  Server& server = start();
  TestClient client(server.resp_port());
  ask(client, resp({"SET", "k", "v", "PX", "1500"}), "+OK\r\n");
  ask(client, resp({"PTTL", "k"}), ":1500\r\n");
  clock_.advance(1499);
  ask(client, resp({"PTTL", "k"}), ":1\r\n");
  clock_.advance(1);
  ask(client, resp({"GET", "k"}), "$-1\r\n");
}

TEST_F(ServerTest, PipelinesKeepTheirOrderAroundCommandsThatRunAlone) {
  Server& server = start();
  TestClient client(server.resp_port());
  std::string request, expected;
  for (int i = 0; i < 200; ++i) {
    request += resp({"FLUSHALL"}) + resp({"SET", "a", std::to_string(i)}) + resp({"DBSIZE"}) +
               resp({"INCR", "a"}) + resp({"SET", "b", "x"}) + resp({"DBSIZE"});
    expected += "+OK\r\n+OK\r\n:1\r\n:" + std::to_string(i + 1) + "\r\n+OK\r\n:2\r\n";
  }
  ask(client, request, expected);
}

TEST_F(ServerTest, SelectAndVersionChangeWithinAPipeline) {
  Server& server = start();
  TestClient client(server.resp_port());
  ask(client,
      resp({"SET", "k", "0"}) + resp({"SELECT", "1"}) + resp({"GET", "k"}) +
          resp({"SET", "k", "1"}) + resp({"SELECT", "0"}) + resp({"GET", "k"}) +
          resp({"SELECT", "1"}) + resp({"GET", "k"}),
      "+OK\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n$1\r\n0\r\n+OK\r\n$1\r\n1\r\n");
  client.send(resp({"GET", "none"}) + resp({"HELLO", "3"}) + resp({"GET", "none"}) +
              resp({"QUIT"}));
  const std::string reply = client.receive_all();
  EXPECT_TRUE(reply.starts_with("$-1\r\n%7\r\n")) << reply;
  EXPECT_TRUE(reply.ends_with("*0\r\n_\r\n+OK\r\n")) << reply;
}

TEST_F(ServerTest, PipeliningConnectionsShareBatches) {
  Server& server = start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
    ask(*clients.back(), "PING\r\n", "+PONG\r\n");
  }
  std::string request, expected;
  for (int i = 0; i < 100; ++i) {
    request += resp({"SET", "k", "v"});
    expected += "+OK\r\n";
  }
  // The loop stands still until all requests have arrived.
  std::promise<void> stands, go;
  server.state().threads.front()->post([&] {
    stands.set_value();
    go.get_future().wait();
  });
  stands.get_future().wait();
  for (auto& client : clients) client->send(request);
  go.set_value();
  for (auto& client : clients) EXPECT_EQ(client->receive(expected.size()), expected);
  EXPECT_GE(server.state().statistics().batch_connections_max, 10u);
  EXPECT_GE(server.state().statistics().batch_rows_max, 1000u);
}

TEST_F(ServerTest, GettingManyKeysIsOneBatch) {
  Server& server = start();
  TestClient redis(server.resp_port());
  TestClient memcached(server.memcached_port());
  std::string mget = "*101\r\n$4\r\nMGET\r\n", nulls = "*100\r\n", get = "get";
  for (int i = 100; i < 200; ++i) {
    mget += "$3\r\n" + std::to_string(i) + "\r\n";
    nulls += "$-1\r\n";
    get += " " + std::to_string(i);
  }
  ask(redis, mget, nulls);
  net::Statistics statistics = server.state().statistics();
  EXPECT_EQ(statistics[net::LoopCount::batches], 1u);
  EXPECT_EQ(statistics.batch_rows_max, 100u);
  ask(memcached, get + "\r\n", "END\r\n");
  statistics = server.state().statistics();
  EXPECT_EQ(statistics[net::LoopCount::batches], 2u);
  EXPECT_EQ(statistics[net::LoopCount::batch_rows], 200u);
}

TEST_F(ServerTest, ConnectionsAreSpreadEvenly) {
  net::ServerOptions options;
  options.threads = 3;
  Server& server = start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
    ask(*clients.back(), "PING\r\n", "+PONG\r\n");
  }
  for (const auto& loop : server.state().loops)
    EXPECT_EQ((*loop)[net::LoopCount::connections].get(), 10u);
}

TEST_F(ServerTest, RefusesMoreThanMaxclients) {
  net::ServerOptions options;
  options.maxclients = 2;
  Server& server = start(options);
  TestClient first(server.resp_port());
  ask(first, "PING\r\n", "+PONG\r\n");
  {
    TestClient second(server.memcached_port());
    ask(second, "version\r\n", "VERSION");
    EXPECT_EQ(TestClient(server.resp_port()).receive_all(),
              "-ERR max number of clients reached\r\n");
    EXPECT_EQ(TestClient(server.memcached_port()).receive_all(),
              "ERROR Too many open connections\r\n");
  }
  // A place is free again once the server has seen the end of the second.
  EXPECT_TRUE(soon([&] {
    usleep(5000);
    TestClient third(server.resp_port());
    return third.ask("PING\r\n", "+PONG\r\n") == "+PONG\r\n";
  }));
}

TEST_F(ServerTest, LostFramingEndsTheConnectionAfterTheError) {
  Server& server = start();
  TestClient client(server.resp_port());
  client.send("PING\r\n*1\r\nfoo\r\nPING\r\n");
  EXPECT_EQ(client.receive_all(), "+PONG\r\n-ERR Protocol error: expected '$', got 'f'\r\n");
}

TEST_F(ServerTest, AnswersWhatCameBeforeTheEndOfInput) {
  Server& server = start();
  TestClient client(server.resp_port());
  client.send(resp({"SET", "a", "1"}) + resp({"DBSIZE"}) + resp({"DBSIZE"}) + resp({"GET", "a"}));
  client.end_input();
  EXPECT_EQ(client.receive_all(), "+OK\r\n:1\r\n:1\r\n$1\r\n1\r\n");
}

TEST_F(ServerTest, LargeValuesArriveWholeInAnyPieces) {
  Server& server = start();
  TestClient client(server.resp_port());
  std::string value(5 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7919 >> 3);
  const std::string request = resp({"SET", "large", value});
  for (size_t at = 0, piece = 1; at < request.size(); piece = piece * 5 % 300'007 + 1) {
    client.send(std::string_view(request).substr(at, piece));
    at += piece;
  }
  EXPECT_EQ(client.receive(5), "+OK\r\n");
  const std::string expected = "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  client.send(resp({"GET", "large"}) + resp({"GET", "large"}));
  EXPECT_TRUE(client.receive(expected.size()) == expected);
  EXPECT_TRUE(client.receive(expected.size()) == expected);
}

// A receive that fills its room says nothing about what is left in the socket, not even an end.
TEST_F(ServerTest, ReceivesThatFillTheirRoomAreFollowedByOthers) {
  Server& server = start();
  const size_t room = net::BufferPool::chunk_bytes;
  for (const size_t bytes : {room - 1, room, room + 1, 2 * room, 5 * room}) {
    TestClient staying(server.resp_port());
    TestClient leaving(server.resp_port());
    const size_t framing = resp({"ECHO", std::string(10'000, 'x')}).size() - 10'000;
    const std::string text(bytes - framing, 'x');
    const std::string request = resp({"ECHO", text});
    ASSERT_EQ(request.size(), bytes);
    const std::string expected = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    EXPECT_TRUE(staying.ask(request + request, expected + expected) == expected + expected);
    EXPECT_TRUE(staying.ask(request, expected) == expected);
    leaving.send(request);
    leaving.end_input();
    EXPECT_TRUE(leaving.receive_all() == expected);
  }
}

// While the loop is busy a request and the end behind it become one event.
TEST_F(ServerTest, SeesAnEndThatCameTogetherWithARequest) {
  Server& server = start();
  TestClient busy(server.resp_port());
  const auto [work, answers] = long_pipeline();
  for (int i = 0; i < 5; ++i) {
    TestClient leaving(server.resp_port());
    ask(leaving, "PING\r\n", "+PONG\r\n");
    busy.send(work);
    leaving.send("PING\r\n");
    leaving.end_input();
    EXPECT_EQ(leaving.receive(7), "+PONG\r\n");
    ASSERT_TRUE(leaving.ended());
    EXPECT_TRUE(busy.receive(answers.size()) == answers);
  }
}

// Receives end before urgent bytes, though more is there; those themselves are no part of a
// request.
TEST_F(ServerTest, UrgentBytesHoldNothingUp) {
  Server& server = start();
  TestClient busy(server.resp_port());
  TestClient client(server.resp_port());
  const auto [work, answers] = long_pipeline();
  for (int i = 0; i < 5; ++i) {
    busy.send(work);
    client.send("PING\r\n");
    ASSERT_TRUE(client.send_urgent('!'));
    client.send("PING\r\nPING\r\n");
    EXPECT_EQ(client.receive(21), "+PONG\r\n+PONG\r\n+PONG\r\n");
    EXPECT_TRUE(busy.receive(answers.size()) == answers);
  }
}

TEST_F(ServerTest, TheRouterIsShown) {
  net::ServerOptions options;
  options.store.router = {.choice = RouterChoice::histogram, .bins = 128, .memory = 1 << 20};
  Server& server = start(options);
  TestClient client(server.resp_port());
  ask(client, resp({"CONFIG", "GET", "router"}), "*2\r\n$6\r\nrouter\r\n$9\r\nhistogram\r\n");
  client.send(resp({"INFO", "isotherm"}) + resp({"QUIT"}));
  const std::string info = client.receive_all();
  for (const char* line : {"# Isotherm\r\n", "router:histogram\r\n", "router_bins_cold:128\r\n",
                           "router_bins_hot:0\r\n", "hot_table_hits:0\r\n"}) {
    EXPECT_NE(info.find(line), std::string::npos) << line << info;
  }
}

TEST_F(ServerTest, AnIndexOfAFixedSizeIsShown) {
  net::ServerOptions options;
  options.store.index = IndexChoice::cuckoo;
  options.store.index_item_bytes = 1 << 20;
  options.store.maxmemory = 64 << 20;
  options.store.maxmemory_policy = EvictionPolicy::allkeys_lru;
  Server& server = start(options);
  TestClient client(server.resp_port());
  ask(client, resp({"CONFIG", "GET", "index"}), "*2\r\n$5\r\nindex\r\n$6\r\ncuckoo\r\n");
  ask(client, resp({"CONFIG", "SET", "maxmemory-policy", "volatile-lru"}),
      "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - an index of a "
      "fixed size needs allkeys-lru or allkeys-random\r\n");
  ask(client, resp({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"}), "+OK\r\n");
  ask(client, resp({"SET", "key", "value"}), "+OK\r\n");
  client.send(resp({"INFO", "isotherm"}) + resp({"QUIT"}));
  const std::string info = client.receive_all();
  for (const char* line : {"index:cuckoo\r\n", "index_room:512\r\n", "index_evicted_keys:0\r\n",
                           "index_displaced_cells:0\r\n"}) {
    EXPECT_NE(info.find(line), std::string::npos) << line << info;
  }
}

TEST_F(ServerTest, SilentClientsHoldNoMoreThanAChunk) {
  Server& server = start();
  TestClient client(server.resp_port());
  const std::string value(3 << 20, 'v');
  ask(client, resp({"SET", "k", value, "EX", "60"}), "+OK\r\n");
  TestClient other(server.resp_port());
  other.send(resp({"INFO", "memory"}) + resp({"QUIT"}));
  const std::string info = other.receive_all();
  const std::string line = "used_memory_buffers:";
  const size_t at = info.find(line);
  ASSERT_NE(at, std::string::npos) << info;
  EXPECT_LT(std::stoull(info.substr(at + line.size())), uint64_t{1} << 20);
}

TEST_F(ServerTest, AClientThatReadsLateGetsEverything) {
  Server& server = start();
  TestClient other(server.resp_port());
  const std::string value(100'000, 'v');
  ask(other, resp({"SET", "k", value}), "+OK\r\n");
  const std::string answer = "$100000\r\n" + value + "\r\n";
  for (const bool leaves : {false, true}) {
    TestClient late(server.resp_port());
    std::string gets, expected;
    for (int i = 0; i < 200; ++i) {
      gets += resp({"GET", "k"});
      expected += answer;
    }
    late.send(gets);
    if (leaves) late.end_input();
    // By now its socket is full and its answers wait in the server.
    for (int i = 0; i < 100; ++i) ask(other, "PING\r\n", "+PONG\r\n");
    EXPECT_TRUE(late.receive(expected.size()) == expected);
    if (leaves) {
      EXPECT_EQ(late.receive_all(), "");
    } else {
      ask(late, "PING\r\n", "+PONG\r\n");
    }
  }
}

TEST_F(ServerTest, AClientThatNeverReadsCostsLittle) {
  Server& server = start();
  TestClient greedy(server.resp_port());
  TestClient other(server.resp_port());
  const std::string value(100'000, 'v');
  ask(greedy, resp({"SET", "k", value}), "+OK\r\n");
  const std::string get = resp({"GET", "k"});
  std::string gets;
  for (int i = 0; i < 1000; ++i) gets += get;
  size_t sent = 0;
  for (int quiet = 0; quiet < 20 && sent < size_t{64} << 20;) {
    const size_t now = greedy.send_some(std::string_view(gets).substr(sent % get.size()));
    sent += now;
    quiet = now == 0 ? quiet + 1 : 0;
    ask(other, "PING\r\n", "+PONG\r\n");
    if (now == 0) usleep(10'000);
    // The first turn cannot know how long the answers are, so it may hold one full read of them.
    EXPECT_LT(server.engine().stats().buffer_bytes, uint64_t{100} << 20);
  }
  EXPECT_LT(sent, size_t{64} << 20);
  EXPECT_LT(server.engine().stats().buffer_bytes, uint64_t{100} << 20);
}

// It is sent from the item, like the whole value.
TEST_F(ServerTest, ALongPartOfAValueCountsAsLittleAsTheValue) {
  Server& server = start();
  TestClient client(server.resp_port());
  const std::string value = std::string(3 << 20, 'a') + std::string(3 << 20, 'b');
  ask(client, resp({"SET", "k", value, "EX", "60"}), "+OK\r\n");
  ask(client, resp({"CONFIG", "SET", "maxmemory-clients", "2mb"}), "+OK\r\n");
  const std::string part = value.substr(100'000, value.size() - 200'000);
  ask(client, resp({"GETRANGE", "k", "100000", "-100001"}),
      "$" + std::to_string(part.size()) + "\r\n" + part + "\r\n");
}

TEST_F(ServerTest, AnnouncedLengthsCostNothing) {
  Server& server = start();
  // The address sanitizer marks memory that is only reserved, which takes a while for each.
  const size_t count = poison::sanitized ? 3 : 50;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.resp_port()));
    clients.back()->send("PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc");
    EXPECT_EQ(clients.back()->receive(7), "+PONG\r\n");
  }
  EXPECT_LT(server.engine().stats().buffer_bytes, count * (uint64_t{400} << 10));
}

TEST_F(ServerTest, StopsWithClientsConnected) {
  Server& server = start();
  TestClient idle(server.resp_port());
  TestClient client(server.resp_port());
  ask(client, "PING\r\n", "+PONG\r\n");
  client.send("*2\r\n$4\r\nECHO\r\n$100\r\nincomplete");
  server.stop();
  server.stop();
  EXPECT_EQ(client.receive_all(), "");
  EXPECT_EQ(server.state().resp_clients.load(), 0u);
}

TEST_F(ServerTest, SaysWhereItCannotListen) {
  Server& server = start();
  net::ServerOptions options;
  options.port = server.resp_port();
  options.memcached_port = -1;
  Server second(options, clock_);
  EXPECT_THROW(second.start(), std::system_error);
}

TEST_F(ServerTest, AFileThatIsNoSocketStaysWhereOneIsWanted) {
  std::string path = std::filesystem::temp_directory_path() / "isotherm-no-socket-XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  ASSERT_GE(descriptor, 0);
  ::close(descriptor);
  net::ServerOptions options;
  options.port = options.memcached_port = -1;
  options.unixsocket = path;
  Server server(options, clock_);
  try {
    server.start();
    ADD_FAILURE() << "it listens on " << path;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::file_exists) << error.what();
  }
  EXPECT_TRUE(std::filesystem::remove(path));
}

TEST_F(ServerTest, APortMayBeOff) {
  net::ServerOptions options;
  options.port = 0;
  options.memcached_port = -1;
  Server server(options, clock_);
  server.start();
  EXPECT_NE(server.resp_port(), 0);
  EXPECT_EQ(server.memcached_port(), 0);
}

}  // namespace
}  // namespace isotherm::server_test
