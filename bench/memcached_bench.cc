// Reads of memcached clients: processor time of servers per request, in rounds by turns.
//
// Usage: memcached_bench [--tcp] [--mg] [--clients N] [--window N] [--burst N] [--rounds N]
//                        [--seconds S] [--keys N] [--value-size N] NAME=PORT:PID NAME=PORT:PID …
//
// Each of the clients has a socket of its own, by UDP or TCP, and `window` requests for which it
// has no reply yet; it sends the next ones together when `burst` replies have come. Requests are
// `get`, or `mg … v`. Printed is the time of each server per request, and the median of the rounds'
// ratios to the last server. What is lost is asked for again after a tenth of a second, and
// counted.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_support.h"
#include "program_flags.h"

namespace {

constexpr size_t header_bytes = 8;
constexpr size_t most_at_once = 64;
constexpr int patience_ms = 100;

struct Options {
  int clients = 50;
  int window = 1;
  int burst = 1;
  int rounds = 5;
  double seconds = 1;
  int keys = 100'000;
  int value_bytes = 32;
  bool tcp = false;
  bool mg = false;

  std::string request(uint64_t key) const;
  std::string reply(const std::string& key) const;
};

struct Server {
  std::string name;
  uint16_t port;
  clockid_t clock;
  std::vector<double> ns;  // per request, of each round
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) fail("the processor time of a server");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string key_of(uint64_t number) {
  char key[32];
  std::snprintf(key, sizeof key, "key:%012llu", static_cast<unsigned long long>(number));
  return key;
}

std::string Options::request(uint64_t key) const {
  return mg ? "mg " + key_of(key) + " v\r\n" : "get " + key_of(key) + "\r\n";
}

// Replies to all keys have one length and one beginning.
std::string Options::reply(const std::string& key) const {
  const std::string size = std::to_string(value_bytes);
  const std::string value = std::string(static_cast<size_t>(value_bytes), 'v') + "\r\n";
  return mg ? "VA " + size + "\r\n" + value
            : "VALUE " + key + " 0 " + size + "\r\n" + value + "END\r\n";
}

// One client: its socket, and what it sends.
class Client {
 public:
  Client(const Server& server, bool tcp, int events, uint32_t number)
      : tcp_(tcp), socket_(::socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fail("connect");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = number;
    if (::epoll_ctl(events, EPOLL_CTL_ADD, socket_, &event) != 0) fail("epoll_ctl");
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  template <class Request>
  void send(int count, Request&& request) {
    tcp_ ? send_bytes(count, request) : send_datagrams(count, request);
  }
  // How many replies came, which are as `expected`, but for their keys.
  int receive(const std::string& expected) {
    return tcp_ ? receive_bytes(expected) : receive_datagrams(expected);
  }

  int owed = 0;  // replies that have come, and were not followed by requests

 private:
  template <class Request>
  void send_bytes(int count, Request& request) {
    std::string all;
    for (int i = 0; i < count; ++i) all += request();
    if (::send(socket_, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) {
      fail("send");
    }
  }
  template <class Request>
  void send_datagrams(int count, Request& request) {
    while (count > 0) {
      const size_t some = std::min<size_t>(static_cast<size_t>(count), most_at_once);
      for (size_t i = 0; i < some; ++i) {
        texts_[i].assign(header_bytes, '\0');
        ++id_;
        texts_[i][0] = static_cast<char>(id_ >> 8);
        texts_[i][1] = static_cast<char>(id_);
        texts_[i][5] = 1;
        texts_[i] += request();
        note(i, texts_[i].data(), texts_[i].size());
      }
      const int sent = ::sendmmsg(socket_, messages_.data(), static_cast<unsigned>(some), 0);
      if (sent <= 0) fail("sendmmsg");
      count -= sent;
    }
  }
  int receive_bytes(const std::string& expected) {
    std::array<char, 64 << 10> bytes;
    const ssize_t came = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (came <= 0) return 0;
    if (rest_ == 0) check({bytes.data(), static_cast<size_t>(came)}, expected);
    rest_ += static_cast<size_t>(came);
    const size_t replies = rest_ / expected.size();
    rest_ -= replies * expected.size();
    return static_cast<int>(replies);
  }
  int receive_datagrams(const std::string& expected) {
    for (size_t i = 0; i < most_at_once; ++i) note(i, replies_[i].data(), replies_[i].size());
    const int came = ::recvmmsg(socket_, messages_.data(), most_at_once, MSG_DONTWAIT, nullptr);
    for (size_t i = 0; static_cast<int>(i) < came; ++i) {
      const std::string_view reply(replies_[i].data(), messages_[i].msg_len);
      check(reply.substr(header_bytes), expected);
    }
    return std::max(came, 0);
  }
  void note(size_t i, char* bytes, size_t size) {
    pieces_[i] = {bytes, size};
    messages_[i] = {};
    messages_[i].msg_hdr.msg_iov = &pieces_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
  static void check(std::string_view reply, const std::string& expected) {
    if (reply.substr(0, 3) == expected.substr(0, 3)) return;
    std::fprintf(stderr, "a wrong reply: %.*s\n", static_cast<int>(reply.size()), reply.data());
    std::exit(1);
  }

  const bool tcp_;
  const int socket_;
  uint16_t id_ = 0;
  size_t rest_ = 0;  // bytes of a reply that is not complete
  std::array<std::string, most_at_once> texts_;
  std::array<std::array<char, 2048>, most_at_once> replies_;
  std::array<mmsghdr, most_at_once> messages_;
  std::array<iovec, most_at_once> pieces_;
};

void fill(const Server& server, const Options& options) {
  const int events = ::epoll_create1(0);
  Client client(server, options.tcp, events, 0);
  const std::string value(static_cast<size_t>(options.value_bytes), 'v');
  const std::string rest = " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
  for (int key = 0; key < options.keys;) {
    const int some = std::min(options.keys - key, 16);
    client.send(some, [&] { return "set " + key_of(static_cast<uint64_t>(key++)) + rest; });
    for (int stored = 0; stored < some;) {
      epoll_event event;
      if (::epoll_wait(events, &event, 1, 5'000) <= 0) fail("a reply to a set");
      stored += client.receive("STORED\r\n");
    }
  }
  ::close(events);
}

// Returns the requests that were answered; adds to those that were lost.
uint64_t run(const Server& server, const Options& options, uint64_t& lost) {
  const int events = ::epoll_create1(0);
  std::vector<std::unique_ptr<Client>> clients;
  std::mt19937_64 random(1);
  const auto request = [&] {
    return options.request(random() % static_cast<uint64_t>(options.keys));
  };
  const std::string expected = options.reply(key_of(0));
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(
        std::make_unique<Client>(server, options.tcp, events, static_cast<uint32_t>(i)));
    clients.back()->send(options.window, request);
  }
  const double end = seconds_of(CLOCK_MONOTONIC) + options.seconds;
  uint64_t answered = 0;
  std::array<epoll_event, 64> seen;
  while (seconds_of(CLOCK_MONOTONIC) < end) {
    const int ready = ::epoll_wait(events, seen.data(), static_cast<int>(seen.size()), patience_ms);
    for (int i = 0; i < ready; ++i) {
      Client& client = *clients[seen[static_cast<size_t>(i)].data.u32];
      const int came = client.receive(expected);
      answered += static_cast<uint64_t>(came);
      client.owed += came;
      if (client.owed < options.burst) continue;
      client.send(std::exchange(client.owed, 0), request);
    }
    if (ready == 0 && !options.tcp) {
      for (const auto& client : clients) client->send(options.window, request);
      lost += static_cast<uint64_t>(options.clients * options.window);
    }
  }
  ::close(events);
  return answered;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  isotherm::bench::ProgramFlags flags("Processor time of servers per read of memcached clients.");
  flags.add_switch("--tcp", options.tcp, "instead of UDP");
  flags.add_switch("--mg", options.mg, "instead of get");
  flags.add("--clients", options.clients);
  flags.add("--window", options.window, "requests of a client without a reply yet");
  flags.add("--burst", options.burst, "requests that are sent together");
  flags.add("--rounds", options.rounds);
  flags.add("--seconds", options.seconds);
  flags.add("--keys", options.keys);
  flags.add("--value-size", options.value_bytes, "bytes");
  flags.add_rest("servers", names, "NAME=PORT:PID each").required();
  flags.take(argc, argv);
  std::vector<Server> servers;
  for (const std::string& word : names) {
    const size_t equals = word.find('='), colon = word.find(':', equals);
    if (colon == std::string::npos) return std::fprintf(stderr, "NAME=PORT:PID\n"), 2;
    Server server{
        word.substr(0, equals), static_cast<uint16_t>(std::stoi(word.substr(equals + 1))), 0, {}};
    if (::clock_getcpuclockid(std::stoi(word.substr(colon + 1)), &server.clock) != 0) {
      fail("the clock of a server");
    }
    servers.push_back(std::move(server));
  }
  for (const Server& server : servers) fill(server, options);
  uint64_t lost = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (Server& server : servers) {
      const double before = seconds_of(server.clock);
      const uint64_t answered = run(server, options, lost);
      server.ns.push_back((seconds_of(server.clock) - before) * 1e9 /
                          static_cast<double>(std::max<uint64_t>(answered, 1)));
    }
  }
  for (const Server& server : servers) {
    std::vector<double> ratios;
    for (size_t round = 0; round < server.ns.size(); ++round) {
      ratios.push_back(server.ns[round] / servers.back().ns[round]);
    }
    std::printf("%-12s %8.0f ns a request, ratio %.3f\n", server.name.c_str(),
                isotherm::bench::median(server.ns), isotherm::bench::median(ratios));
  }
  std::printf("%llu lost\n", static_cast<unsigned long long>(lost));
  return 0;
}
