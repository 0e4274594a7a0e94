// memcached by UDP, over sockets: what is answered, what is dropped, and how much.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "net/udp/port.h"
#include "server/server.h"
#include "server/test_client.h"

namespace isotherm::udp_test {
namespace {

using net::UdpCounters;
using net::UdpFrame;

// Sends datagrams and reads replies. Waits two minutes for one at most.
class UdpClient {
 public:
  explicit UdpClient(uint16_t port, const char* from = nullptr, uint16_t from_port = 0)
      : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{120, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (from != nullptr) {
      const sockaddr_in own = address(from, from_port);
      bound_ = ::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0;
    }
    const sockaddr_in server = address("127.0.0.1", port);
    ::connect(socket_, reinterpret_cast<const sockaddr*>(&server), sizeof server);
  }
  ~UdpClient() { ::close(socket_); }

  bool bound() const { return bound_; }
  void send_raw(std::string_view datagram) {
    EXPECT_EQ(::send(socket_, datagram.data(), datagram.size(), 0),
              static_cast<ssize_t>(datagram.size()));
  }
  void send(std::string_view request, UdpFrame frame) {
    std::string datagram(UdpFrame::header_bytes, '\0');
    frame.write(datagram.data());
    send_raw(datagram.append(request));
  }
  void send(std::string_view request) { send(request, {.id = ++id_}); }

  // The next reply, of all its datagrams; empty: none came.
  std::string reply() {
    std::string all;
    for (uint16_t number = 0;; ++number) {
      char bytes[2048];
      const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
      if (got < static_cast<ssize_t>(UdpFrame::header_bytes)) return "";
      EXPECT_LE(got, static_cast<ssize_t>(UdpFrame::datagram_bytes));
      const auto u16 = [&](int at) {
        return static_cast<uint16_t>(static_cast<unsigned char>(bytes[at]) << 8 |
                                     static_cast<unsigned char>(bytes[at + 1]));
      };
      id_seen_ = u16(0);
      EXPECT_EQ(u16(2), number);
      all.append(bytes + UdpFrame::header_bytes, static_cast<size_t>(got) - UdpFrame::header_bytes);
      if (number + 1 == u16(4)) return all;
    }
  }
  // Of so many requests in one datagram.
  std::string replies(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += reply();
    return all;
  }
  std::string ask(std::string_view request, int count = 1) {
    send(request);
    std::string got = replies(count);
    EXPECT_EQ(id_seen_, id_);
    return got;
  }

 private:
  static sockaddr_in address(const char* host, uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    ::inet_pton(AF_INET, host, &made.sin_addr);
    return made;
  }

  const int socket_;
  bool bound_ = false;
  uint16_t id_ = 0;
  uint16_t id_seen_ = 0;
};

class UdpTest : public testing::Test {
 protected:
  Server& start(net::ServerOptions options = {}) {
    options.port = options.memcached_port = options.memcached_udp_port = 0;
    if (options.threads == 0) options.threads = 1;
    server_ = std::make_unique<Server>(options, clock_);
    server_->start();
    return *server_;
  }
  uint64_t count(Counter UdpCounters::*counter) const {
    uint64_t sum = 0;
    for (const auto& loop : server_->state().loops) sum += (loop->udp.*counter).get();
    return sum;
  }
  // Datagrams that came before this are looked at: a client's are, in order.
  static void pass(UdpClient& client) { EXPECT_EQ(client.ask("mn\r\n"), "MN\r\n"); }

  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Server> server_;
};

TEST_F(UdpTest, LongRepliesTakeSeveralDatagrams) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  for (const size_t bytes : {1'000u, 1'392u, 5'000u, 60'000u}) {
    std::string value;
    while (value.size() < bytes) value += std::to_string(value.size()) + " ";
    value.resize(bytes);
    const std::string size = std::to_string(bytes);
    TestClient tcp(server.memcached_port());
    EXPECT_EQ(tcp.ask("set k 0 0 " + size + "\r\n" + value + "\r\n", "STORED\r\n"), "STORED\r\n");
    EXPECT_EQ(udp.ask("get k\r\n"), "VALUE k 0 " + size + "\r\n" + value + "\r\nEND\r\n");
  }
}

TEST_F(UdpTest, EachRequestOfADatagramHasAReplyOfItsOwn) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  const std::string value(3'000, 'v');
  udp.send("set k 0 0 3000\r\n" + value + "\r\nset n 0 0 1 noreply\r\n1\r\nget k\r\nnosuch\r\n" +
           "mg none v q\r\nstats sizes\r\nget n k n\r\nmn\r\n");
  EXPECT_EQ(udp.reply(), "STORED\r\n");
  EXPECT_EQ(udp.reply(), "VALUE k 0 3000\r\n" + value + "\r\nEND\r\n");
  EXPECT_EQ(udp.reply(), "ERROR\r\n");
  EXPECT_EQ(udp.reply(), "STAT sizes_status disabled\r\nEND\r\n");
  EXPECT_EQ(udp.reply(),
            "VALUE n 0 1\r\n1\r\nVALUE k 0 3000\r\n" + value + "\r\nVALUE n 0 1\r\n1\r\nEND\r\n");
  EXPECT_EQ(udp.reply(), "MN\r\n");
}

// More rows than a turn takes, and more replies than a call sends; no more than a socket holds.
TEST_F(UdpTest, ManyRequestsOfADatagram) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  constexpr int many = 200, quiet = 25;
  std::string requests;
  for (int i = 0; i < many; ++i) {
    for (int k = 0; k < quiet; ++k) requests += "mg a q\r\n";
    requests += "get a\r\n";
  }
  udp.send(requests + "mn\r\n");
  for (int i = 0; i < many; ++i) ASSERT_EQ(udp.reply(), "END\r\n") << i;
  EXPECT_EQ(udp.reply(), "MN\r\n");
}

// Whose datagrams the kernel divides from fewer messages: neighbours of one size, and one shorter.
TEST_F(UdpTest, RepliesOfSeveralClientsAndSizesStayApart) {
  Server& server = start();
  UdpClient a(server.memcached_udp_port()), b(server.memcached_udp_port());
  const std::string full(1'379, 'f');  // so that a reply fills its datagram
  EXPECT_EQ(a.ask("set f 0 0 1379\r\n" + full + "\r\nset s 0 0 1\r\nv\r\n", 2),
            "STORED\r\nSTORED\r\n");
  std::promise<void> stands, go;
  server.state().threads.front()->post([&] {
    stands.set_value();
    go.get_future().wait();
  });
  stands.get_future().wait();
  a.send("get s\r\nget s\r\nmn\r\nmn\r\nget s\r\nget f\r\nget f\r\n");
  b.send("get s\r\n");
  a.send("get s\r\n");
  b.send("get f\r\nget f f\r\nget s\r\n");
  go.set_value();
  const std::string s = "VALUE s 0 1\r\nv\r\n", f = "VALUE f 0 1379\r\n" + full + "\r\n";
  const std::string end = "END\r\n", mn = "MN\r\n";
  for (const std::string& reply : {s + end, s + end, mn, mn, s + end, f + end, f + end, s + end}) {
    EXPECT_EQ(a.reply(), reply);
  }
  for (const std::string& reply : {s + end, f + end, f + f + end, s + end}) {
    EXPECT_EQ(b.reply(), reply);
  }
}

TEST_F(UdpTest, AReplyOfManyTurns) {
  Server& server = start();
  TestClient tcp(server.memcached_port());
  const std::string value(12'000, 'v');
  std::string get = "get", expected;
  for (int i = 0; i < 9; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(tcp.ask("set " + key + " 0 0 12000\r\n" + value + "\r\n", "STORED\r\n"),
              "STORED\r\n");
    get += " " + key;
    expected += "VALUE " + key + " 0 12000\r\n" + value + "\r\n";
  }
  UdpClient udp(server.memcached_udp_port());
  EXPECT_EQ(udp.ask(get + "\r\n"), expected + "END\r\n");
  // More than any reply may have.
  get = "get";
  for (int i = 0; i < 300; ++i) get += " k1";
  EXPECT_EQ(udp.ask(get + "\r\n"), "SERVER_ERROR reply too large for UDP\r\n");
  EXPECT_EQ(udp.ask("mn\r\n"), "MN\r\n");
}

TEST_F(UdpTest, AnAddressThatIsTakenIsNotShared) {
  const Server& server = start();
  net::ServerOptions options;
  options.port = options.memcached_port = -1;
  options.memcached_udp_port = server.memcached_udp_port();
  options.threads = 1;
  Server second(options, clock_);
  EXPECT_THROW(second.start(), std::system_error);
}

TEST_F(UdpTest, DatagramsAreRowsOfOneBatchWithConnections) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  TestClient tcp(server.memcached_port());
  EXPECT_EQ(tcp.ask("set k 0 0 1\r\nv\r\n", "STORED\r\n"), "STORED\r\n");
  // The loop stands still until all requests wait for it.
  std::promise<void> stands, go;
  server.state().threads.front()->post([&] {
    stands.set_value();
    go.get_future().wait();
  });
  stands.get_future().wait();
  const uint64_t batches = server.state().statistics()[net::LoopCount::batches];
  const std::string get = "get k\r\n", value = "VALUE k 0 1\r\nv\r\nEND\r\n";
  for (int i = 0; i < 8; ++i) udp.send(get);
  tcp.send(get);
  go.set_value();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(udp.reply(), value);
  EXPECT_EQ(tcp.receive(value.size()), value);
  EXPECT_EQ(server.state().statistics()[net::LoopCount::batches], batches + 1);
  EXPECT_EQ(server.state().statistics().batch_rows_max, 9u);
}

TEST_F(UdpTest, MoreDatagramsThanExchangesAreAnsweredInTurns) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  std::promise<void> stands, go;
  server.state().threads.front()->post([&] {
    stands.set_value();
    go.get_future().wait();
  });
  stands.get_future().wait();
  constexpr size_t many = net::UdpPort::most_exchanges * 2 + 3;
  for (size_t i = 0; i < many; ++i) udp.send("version\r\n");
  go.set_value();
  for (size_t i = 0; i < many; ++i) EXPECT_EQ(udp.reply(), "VERSION 1.6.18\r\n");
}

// Each may have thousands of rows, which connections of the loop would wait for.
TEST_F(UdpTest, DatagramsOfManyRowsGoOverSeveralTurns) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  std::string get = "get";
  for (int i = 0; i < 256; ++i) get += " a";
  std::promise<void> stands, go;
  server.state().threads.front()->post([&] {
    stands.set_value();
    go.get_future().wait();
  });
  stands.get_future().wait();
  constexpr int many = 120;  // so that all exchanges are made, and the last turn has the most
  for (int i = 0; i < many; ++i) udp.send(get + "\r\n");
  go.set_value();
  for (int i = 0; i < many; ++i) EXPECT_EQ(udp.reply(), "END\r\n");
  constexpr uint64_t of_one = 4'096;  // datagram, at most
  EXPECT_LE(server.state().statistics().batch_rows_max, net::UdpPort::most_rows + of_one);
}

TEST_F(UdpTest, WhatIsNoRequestIsCountedAndDropped) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  udp.send_raw("x");
  udp.send_raw("12345678");
  udp.send("get a\r\n", {.id = 9, .count = 2});
  udp.send("get a\r\n", {.id = 9, .number = 1, .count = 2});
  udp.send("\x80\x01", {.id = 9});
  udp.send("get a", {.id = 9});
  udp.send("set a 0 0 10\r\nabc\r\n", {.id = 9});
  // The first request has its answer, the half behind it none, and nobody else's is taken for it.
  udp.send("version\r\nset a 0 0 10\r\nabc", {.id = 9});
  EXPECT_EQ(udp.reply(), "VERSION 1.6.18\r\n");
  EXPECT_EQ(udp.ask("get a\r\n"), "END\r\n");
  EXPECT_EQ(count(&UdpCounters::malformed), 2u);
  EXPECT_EQ(count(&UdpCounters::several), 2u);
  EXPECT_EQ(count(&UdpCounters::foreign), 1u);
  EXPECT_EQ(count(&UdpCounters::truncated), 3u);
  EXPECT_EQ(count(&UdpCounters::received), 9u);
  const std::string stats = udp.ask("stats\r\n");
  for (const char* line : {"STAT udp_malformed 2\r\n", "STAT udp_several 2\r\n",
                           "STAT udp_foreign 1\r\n", "STAT udp_truncated 3\r\n"}) {
    EXPECT_NE(stats.find(line), std::string::npos) << line << stats;
  }
}

TEST_F(UdpTest, ARepeatedDatagramRunsOnce) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  EXPECT_EQ(udp.ask("set n 0 0 1\r\n0\r\n"), "STORED\r\n");
  udp.send("incr n 1\r\n", {.id = 77});
  udp.send("incr n 1\r\n", {.id = 77});
  EXPECT_EQ(udp.reply(), "1\r\n");
  udp.send("incr n 1\r\n", {.id = 78});
  EXPECT_EQ(udp.reply(), "2\r\n");
  EXPECT_EQ(count(&UdpCounters::repeated), 1u);
  // Another client's, and a later one with an id that comes again.
  UdpClient other(server.memcached_udp_port());
  other.send("incr n 1\r\n", {.id = 78});
  EXPECT_EQ(other.reply(), "3\r\n");
  clock_.advance(net::UdpRepeats::window_ms + 1);
  udp.send("incr n 1\r\n", {.id = 78});
  EXPECT_EQ(udp.reply(), "4\r\n");
}

TEST_F(UdpTest, ARepeatedGetIsAnsweredAgain) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  EXPECT_EQ(udp.ask("set n 0 0 1\r\n0\r\n"), "STORED\r\n");
  for (const std::string request : {"get n\r\n", "get n\r\nget n\r\n"}) {
    const int gets = request.size() > 8 ? 2 : 1;
    for (int i = 0; i < 2 * gets; ++i) {
      if (i % gets == 0) udp.send(request, {.id = 77});
      EXPECT_EQ(udp.reply(), "VALUE n 0 1\r\n0\r\nEND\r\n");
    }
  }
  EXPECT_EQ(count(&UdpCounters::repeated), 2u);
  // Not where one of its requests changes something.
  udp.send("get n\r\nincr n 1\r\n", {.id = 77});
  EXPECT_EQ(udp.replies(2), "VALUE n 0 1\r\n0\r\nEND\r\n1\r\n");
  udp.send("get n\r\nincr n 1\r\n", {.id = 77});
  EXPECT_EQ(udp.ask("get n\r\n"), "VALUE n 0 1\r\n1\r\nEND\r\n");
}

// Those of one turn are more than it sends.
TEST_F(UdpTest, RepliesAreSentBeforeTheServerEnds) {
  Server& server = start();
  TestClient resp_client(server.resp_port());
  const std::string value(60'000, 'v');
  ASSERT_EQ(resp_client.ask(resp({"SET", "k", value}), "+OK\r\n"), "+OK\r\n");
  const std::string pause = resp({"CLIENT", "PAUSE", "100000", "WRITE"});
  ASSERT_EQ(resp_client.ask(pause, "+OK\r\n"), "+OK\r\n");
  std::vector<std::unique_ptr<UdpClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<UdpClient>(server.memcached_udp_port()));
    clients.back()->send("get k\r\n");
  }
  while (count(&UdpCounters::received) != clients.size()) std::this_thread::yield();
  ASSERT_EQ(resp_client.ask(resp({"CLIENT", "UNPAUSE"}), "+OK\r\n"), "+OK\r\n");
  while (count(&UdpCounters::sent) == 0) std::this_thread::yield();
  server_.reset();
  const std::string reply = "VALUE k 0 60000\r\n" + value + "\r\nEND\r\n";
  for (const auto& client : clients) EXPECT_EQ(client->reply(), reply);
}

TEST_F(UdpTest, AServersReplyIsNoRequest) {
  Server& server = start();
  UdpClient reflected(server.memcached_udp_port(), "127.0.0.2", server.memcached_udp_port());
  ASSERT_TRUE(reflected.bound());
  reflected.send("ERROR\r\n");
  UdpClient udp(server.memcached_udp_port());
  while (count(&UdpCounters::received) == 0) pass(udp);
  pass(udp);
  EXPECT_EQ(count(&UdpCounters::foreign), 1u);
}

TEST_F(UdpTest, AReplyIsNoMoreThanAMultipleOfWhatAnUnprovenAddressSent) {
  net::ServerOptions options;
  options.memcached_udp_trusted = net::UdpTrust::none;
  options.memcached_udp_amplification = 4;
  Server& server = start(options);
  UdpClient udp(server.memcached_udp_port());
  const std::string set = "set k 0 0 200\r\n" + std::string(200, 'v') + "\r\n";
  EXPECT_EQ(udp.ask(set), "STORED\r\n");
  const std::string error = "SERVER_ERROR reply too large for UDP\r\n";
  // A request of 8 + 7 bytes may have 60.
  EXPECT_EQ(udp.ask("get k\r\n"), error);
  EXPECT_EQ(udp.ask("stats\r\n"), error);
  EXPECT_EQ(udp.ask("mg k s\r\n"), "HD s200\r\n");
  EXPECT_EQ(count(&UdpCounters::too_long), 2u);
  // Short replies have headers, too.
  std::string nothings;
  for (int i = 0; i < 20; ++i) nothings += "mn\r\n";
  EXPECT_EQ(udp.ask(nothings), error);
  const std::string value = "VALUE k 0 200\r\n" + std::string(200, 'v') + "\r\nEND\r\n";
  const std::string padded = "get k" + std::string(60, ' ') + "\r\n";
  EXPECT_EQ(udp.ask(padded), value) << "it sent enough";
  {
    TestClient tcp(server.memcached_port());
    EXPECT_EQ(tcp.ask("mn\r\n", "MN\r\n"), "MN\r\n");
    EXPECT_EQ(udp.ask("get k\r\n"), value) << "its address is proven";
  }
  while (server.state().memcached_clients != 0) pass(udp);
  EXPECT_EQ(udp.ask("get k\r\n"), error);
}

TEST_F(UdpTest, NothingIsSaidWhereTheErrorIsTooLong) {
  net::ServerOptions options;
  options.memcached_udp_trusted = net::UdpTrust::none;
  options.memcached_udp_amplification = 1;
  Server& server = start(options);
  UdpClient udp(server.memcached_udp_port());
  udp.send("version\r\n");
  pass(udp);
  EXPECT_EQ(count(&UdpCounters::too_long), 1u);
}

TEST_F(UdpTest, CommandsThatRunAloneAndThoseBehindThem) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  EXPECT_EQ(udp.ask("set a 0 0 1\r\n1\r\nflush_all 5\r\nget a\r\n", 3),
            "STORED\r\nOK\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
  EXPECT_EQ(udp.ask("stats sizes\r\nget a\r\n", 2),
            "STAT sizes_status disabled\r\nEND\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
  EXPECT_EQ(udp.ask("stats cachedump 1 1\r\n"), "SERVER_ERROR not over UDP\r\n");
  EXPECT_EQ(udp.ask("stats sizes_enable\r\nstats sizes\r\n", 2),
            "STAT sizes_status enabled\r\nSERVER_ERROR not over UDP\r\n");
  clock_.advance(5'000);
  EXPECT_EQ(udp.ask("get a\r\nquit\r\nget a\r\n"), "END\r\n");
}

TEST_F(UdpTest, APauseHoldsDatagrams) {
  Server& server = start();
  UdpClient udp(server.memcached_udp_port());
  TestClient redis(server.resp_port());
  EXPECT_EQ(redis.ask(resp({"CLIENT", "PAUSE", "100000", "WRITE"}), "+OK\r\n"), "+OK\r\n");
  udp.send("get a\r\n");
  while (count(&UdpCounters::received) == 0) std::this_thread::yield();
  EXPECT_EQ(redis.ask(resp({"CLIENT", "UNPAUSE"}), "+OK\r\n"), "+OK\r\n");
  EXPECT_EQ(udp.reply(), "END\r\n");
}

TEST_F(UdpTest, ManyClientsOfSeveralLoopsCountTogether) {
  net::ServerOptions options;
  options.threads = 2;
  Server& server = start(options);
  constexpr int clients = 4, rounds = 200;
  TestClient tcp(server.memcached_port());
  EXPECT_EQ(tcp.ask("set n 0 0 1\r\n0\r\n", "STORED\r\n"), "STORED\r\n");
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      UdpClient udp(server.memcached_udp_port());
      for (int round = 0; round < rounds; ++round) answered += !udp.ask("incr n 1\r\n").empty();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, clients * rounds);
  EXPECT_EQ(tcp.ask("incr n 0\r\n", "800\r\n"), "800\r\n");
}

}  // namespace
}  // namespace isotherm::udp_test
