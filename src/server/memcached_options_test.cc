// What only memcached's port is told by options, and UNIX sockets.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::memcached_options_test {
namespace {

class MemcachedOptionsTest : public testing::Test {
 protected:
  // With options as `fill` leaves them.
  template <class Fill>
  Server& start(const Fill& fill) {
    net::ServerOptions options;
    options.port = options.memcached_port = 0;
    options.threads = 1;
    fill(options);
    server_ = std::make_unique<Server>(options, clock_);
    server_->start();
    return *server_;
  }
  static std::string ask(TestClient& client, const std::string& request,
                         const std::string& expected) {
    return client.ask(request, expected);
  }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Server> server_;
};

TEST_F(MemcachedOptionsTest, ConnectionsOfItsOwn) {
  Server& server = start([&](net::ServerOptions& options) {
    options.maxclients = 4;
    options.memcached_max_connections = 1;
  });
  TestClient first(server.memcached_port());
  EXPECT_EQ(ask(first, "mn\r\n", "MN\r\n"), "MN\r\n");
  TestClient second(server.memcached_port());
  EXPECT_EQ(second.receive_all(), "ERROR Too many open connections\r\n");
  TestClient redis(server.resp_port());
  EXPECT_EQ(ask(redis, resp({"PING"}), "+PONG\r\n"), "+PONG\r\n");
}

TEST_F(MemcachedOptionsTest, ASilentClientIsClosed) {
  Server& server = start([&](net::ServerOptions& options) { options.memcached_idle_timeout = 10; });
  TestClient redis(server.resp_port());
  TestClient memcached(server.memcached_port());
  EXPECT_EQ(ask(redis, resp({"PING"}), "+PONG\r\n"), "+PONG\r\n");
  EXPECT_EQ(ask(memcached, "mn\r\n", "MN\r\n"), "MN\r\n");
  clock_.advance(10'000);
  EXPECT_TRUE(memcached.ended());
  EXPECT_EQ(ask(redis, resp({"PING"}), "+PONG\r\n"), "+PONG\r\n");
}

TEST_F(MemcachedOptionsTest, LargestItem) {
  const std::string too_large = "SERVER_ERROR object too large for cache\r\n";
  {
    Server& server =
        start([&](net::ServerOptions& options) { options.memcached_item_size_max = 1 << 10; });
    TestClient client(server.memcached_port());
    const std::string value(1024, 'v');
    EXPECT_EQ(ask(client, "set a 0 0 1024\r\n" + value + "\r\n", too_large), too_large);
    EXPECT_EQ(ask(client, "ms a 1024\r\n" + value + "\r\n", too_large), too_large);
    const std::string fits = std::string(900, 'v') + "\r\n";
    EXPECT_EQ(ask(client, "set a 0 0 900\r\n" + fits, "STORED\r\n"), "STORED\r\n");
    const std::string stored = "VALUE a 0 900\r\n" + fits + "END\r\n";
    EXPECT_EQ(ask(client, "get a\r\n", stored), stored);
  }
  Server& server =
      start([&](net::ServerOptions& options) { options.memcached_item_size_max = 4 << 20; });
  TestClient client(server.memcached_port());
  const std::string large = std::string(3 << 20, 'v') + "\r\n";
  EXPECT_EQ(ask(client, "set a 0 0 3145728\r\n" + large, "STORED\r\n"), "STORED\r\n");
  EXPECT_EQ(ask(client, "ms b 3145728\r\n" + large, "HD\r\n"), "HD\r\n");
  const std::string stored = "VALUE a 0 3145728\r\n" + large + "END\r\n";
  EXPECT_EQ(ask(client, "get a\r\n", stored), stored);
}

TEST_F(MemcachedOptionsTest, WhatIsDisabledIsRefused) {
  Server& server = start([&](net::ServerOptions& options) {
    options.memcached_flush = false;
    options.memcached_dumps = false;
  });
  TestClient client(server.memcached_port());
  EXPECT_EQ(ask(client, "set a 0 0 1\r\n1\r\n", "STORED\r\n"), "STORED\r\n");
  const std::string no_flush = "CLIENT_ERROR flush_all not allowed\r\n";
  for (const char* request :
       {"flush_all\r\n", "flush_all 10\r\n", "flush_all noreply\r\nflush_all\r\n"}) {
    EXPECT_EQ(ask(client, request, no_flush), no_flush) << request;
  }
  const std::string no_dump = "CLIENT_ERROR stats cachedump not allowed\r\n";
  EXPECT_EQ(ask(client, "stats cachedump 1 1\r\n", no_dump), no_dump);
  clock_.advance(20'000);
  const std::string there = "VALUE a 0 1\r\n1\r\nEND\r\n";
  EXPECT_EQ(ask(client, "get a\r\n", there), there);
}

TEST_F(MemcachedOptionsTest, FewRequestsATurn) {
  Server& server =
      start([&](net::ServerOptions& options) { options.memcached_reqs_per_event = 3; });
  TestClient client(server.memcached_port());
  std::string requests, replies;
  for (int i = 0; i < 50; ++i) {
    requests += "set k 0 0 1\r\n1\r\nget k none\r\nmg k s\r\n";
    replies += "STORED\r\nVALUE k 0 1\r\n1\r\nEND\r\nHD s1\r\n";
  }
  EXPECT_EQ(ask(client, requests, replies), replies);
  EXPECT_LE(server.state().statistics().batch_rows_max, 3u);
}

// A path that no other test has, and no longer than sockets take.
std::string path_of(const char* name) {
  return (std::filesystem::temp_directory_path() /
          ("isotherm-" + std::to_string(::getpid()) + "-" + name))
      .string();
}

std::string ask_path(const std::string& path, std::string_view request, size_t bytes) {
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  std::string reply;
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(client, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char piece[4096];
    ssize_t got;
    while (reply.size() < bytes && (got = ::recv(client, piece, sizeof piece, 0)) > 0) {
      reply.append(piece, static_cast<size_t>(got));
    }
  }
  ::close(client);
  return reply;
}

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

TEST_F(MemcachedOptionsTest, UnixSocketsOfBothProtocols) {
  const std::string redis = path_of("r"), memcached = path_of("m");
  Server& server = start([&](net::ServerOptions& options) {
    options.unixsocket = redis;
    options.unixsocketperm = 0770;
    options.memcached_unixsocket = memcached;
  });
  EXPECT_EQ(mode_of(redis), 0770u);
  EXPECT_EQ(mode_of(memcached), 0700u);
  EXPECT_EQ(ask_path(redis, resp({"SET", "k", "v"}), 5), "+OK\r\n");
  EXPECT_EQ(ask_path(memcached, "get k\r\n", 21), "VALUE k 0 1\r\nv\r\nEND\r\n");
  const std::string conns = ask_path(memcached, "stats conns\r\n", 60);
  EXPECT_NE(conns.find(":addr unix:" + memcached + "\r\n"), std::string::npos) << conns;
  const std::string list = ask_path(redis, resp({"CLIENT", "LIST"}), 60);
  EXPECT_NE(list.find("addr=" + redis + ":0 laddr=" + redis + ":0 "), std::string::npos) << list;
  server.stop();
  EXPECT_FALSE(std::filesystem::exists(redis));
  EXPECT_FALSE(std::filesystem::exists(memcached));
}

TEST_F(MemcachedOptionsTest, APathThatIsTakenIsRefusedAndOneThatIsLeftReplaced) {
  const std::string path = path_of("t");
  start([&](net::ServerOptions& options) { options.unixsocket = path; });
  {
    net::ServerOptions options;
    options.port = options.memcached_port = -1;
    options.threads = 1;
    options.unixsocket = path;
    Server second(options, clock_);
    EXPECT_THROW(second.start(), std::system_error);
  }
  EXPECT_EQ(ask_path(path, resp({"PING"}), 7), "+PONG\r\n") << "the first still listens";
  server_.reset();
  // As one that crashed leaves it.
  const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  start([&](net::ServerOptions& options) { options.unixsocket = path; });
  EXPECT_EQ(ask_path(path, resp({"PING"}), 7), "+PONG\r\n");
  server_.reset();
  // What is no socket stays.
  std::fclose(std::fopen(path.c_str(), "w"));
  EXPECT_THROW(start([&](net::ServerOptions& options) { options.unixsocket = path; }),
               std::system_error);
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
  std::filesystem::remove(path);
  const std::string too_long(200, 'x');
  EXPECT_THROW(start([&](net::ServerOptions& options) { options.unixsocket = too_long; }),
               std::system_error);
}

// It refuses who asks it for a stream, as one does that this server may not ask.
TEST_F(MemcachedOptionsTest, ASocketOfAnotherKindStays) {
  const std::string path = path_of("d");
  const int datagrams = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(datagrams, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THROW(start([&](net::ServerOptions& options) { options.unixsocket = path; }),
               std::system_error);
  EXPECT_TRUE(std::filesystem::is_socket(path));
  ::close(datagrams);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace isotherm::memcached_options_test
