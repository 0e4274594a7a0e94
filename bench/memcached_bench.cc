// Reads of memcached clients: requests a second, and processor time of servers per request, in
// rounds by turns.
//
// Usage: memcached_bench [--tcp] [--mg] [--clients N] [--threads N] [--window N] [--burst N]
//                        [--rounds N] [--seconds S] [--keys N] [--value-size N] [--patience-ms N]
//                        NAME=PORT:PID[:UDP] NAME=PORT:PID[:UDP] …
//
// Keys are stored by TCP, at PORT, where UDP is asked, too, unless its port is another one. Each of
// the clients (isotherm_bench/memcached_reader.h), which share the threads, has `window` requests
// for which it has no reply yet; it sends the next ones together when `burst` replies have come.
// Requests are `get`, or `mg … v`, every reply is compared with what it has to be, and what is lost
// is sent again after --patience-ms, and counted. The first round warms up.
//
// Printed are, for each server, the medians of its rounds and, in parentheses, the medians of the
// rounds' ratios to each server behind it; percentiles are of all rounds. What share of the
// requests a GPU answered is from `stats` of the server.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_support.h"
#include "isotherm_bench/control.h"
#include "isotherm_bench/memcached_reader.h"
#include "program_flags.h"

namespace {

using isotherm::bench::Histogram;
using isotherm::bench::median;
using isotherm::bench::MemcachedReader;
using isotherm::bench::now_ns;
using isotherm::bench::ReaderCounts;
using isotherm::bench::seconds_of;

struct Options {
  MemcachedReader::Load load;
  uint32_t clients = 50;
  uint32_t threads = 1;
  int rounds = 5;
  double seconds = 1;
  uint64_t keys = 100'000;
  int patience_ms = 100;
};

struct Server {
  std::string name;
  uint16_t port;
  uint16_t data_port;  // of the reads
  clockid_t clock;
  std::vector<double> ns = {};    // of processor time per request, of each round
  std::vector<double> rate = {};  // requests a second
  Histogram latency = {};
  uint64_t answered = 0;
  uint64_t by_gpu = 0;
  uint64_t lost = 0;
};

struct Round {
  ReaderCounts counts;
  uint64_t in_time = 0;  // replies before its end, after which none is asked for
};

// Gets that a GPU answered, as `stats` says; 0 where it does not.
uint64_t gets_by_gpu(const Server& server) {
  const int socket = isotherm::bench::connect_to(server.port, SOCK_STREAM);
  std::string stats;
  std::array<char, 4096> bytes;
  const bool asked = ::send(socket, "stats\r\n", 7, MSG_NOSIGNAL) == 7;
  while (asked && !stats.ends_with("END\r\n")) {
    const ssize_t came = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (came <= 0) break;
    stats.append(bytes.data(), static_cast<size_t>(came));
  }
  ::close(socket);
  constexpr std::string_view name = "STAT packet_gets_by_gpu ";
  const size_t at = stats.find(name);
  return at == std::string::npos ? 0 : std::strtoull(stats.c_str() + at + name.size(), nullptr, 10);
}

// The clients of one thread.
class Readers {
 public:
  Readers(const Server& server, const Options& options, uint32_t clients, uint64_t seed)
      : options_(options), random_(seed), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    const auto next_key = [this] { return random_() % options_.keys; };
    for (uint32_t i = 0; i < clients; ++i) {
      readers_.push_back(std::make_unique<MemcachedReader>(server.data_port, options.load, next_key,
                                                           round_.counts));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = readers_.back().get();
      ::epoll_ctl(events_, EPOLL_CTL_ADD, readers_.back()->descriptor(), &event);
    }
  }
  ~Readers() { ::close(events_); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  const Round& run() {
    const int64_t patience = options_.patience_ms * int64_t{1'000'000};
    const int64_t end = now_ns() + static_cast<int64_t>(options_.seconds * 1e9);
    int64_t looked = now_ns();
    for (const auto& reader : readers_) reader->send(looked);
    int64_t now = looked;
    for (; now < end; now = now_ns()) {
      receive(true);
      if (options_.load.tcp || now - looked < patience / 4) continue;
      for (const auto& reader : readers_) reader->send_lost_again(now - patience, now);
      looked = now;
    }
    round_.in_time = round_.counts.answered;
    constexpr int64_t stream_patience = 10'000'000'000;
    const int64_t last = end + (options_.load.tcp ? stream_patience : patience);
    const auto waits = [](const auto& reader) { return reader->waits_for_replies(); };
    while (std::ranges::any_of(readers_, waits) && now_ns() < last) receive(false);
    if (options_.load.tcp && std::ranges::any_of(readers_, waits)) {
      throw std::runtime_error("replies have not come");
    }
    return round_;
  }

 private:
  void receive(bool sends) {
    std::array<epoll_event, 64> seen;
    constexpr int poll_ms = 10;
    const int ready = ::epoll_wait(events_, seen.data(), static_cast<int>(seen.size()), poll_ms);
    for (int i = 0; i < ready; ++i) {
      auto& reader = *static_cast<MemcachedReader*>(seen[static_cast<size_t>(i)].data.ptr);
      reader.receive(now_ns());
      if (sends) reader.send(now_ns());
    }
  }

  const Options& options_;
  std::mt19937_64 random_;
  const int events_;
  Round round_;
  std::vector<std::unique_ptr<MemcachedReader>> readers_;
};

// Throws what a thread has thrown.
Round run(const Server& server, const Options& options) {
  std::vector<std::future<Round>> threads;
  for (uint32_t i = 0; i < options.threads; ++i) {
    const uint32_t clients =
        options.clients / options.threads + (i < options.clients % options.threads ? 1u : 0u);
    threads.push_back(std::async(std::launch::async, [&server, &options, clients, i] {
      return Readers(server, options, clients, i + 1).run();
    }));
  }
  Round all;
  for (auto& thread : threads) {
    const Round one = thread.get();
    all.counts.answered += one.counts.answered;
    all.counts.lost += one.counts.lost;
    all.counts.ns.merge(one.counts.ns);
    all.in_time += one.in_time;
  }
  return all;
}

void measure(Server& server, const Options& options) {
  const uint64_t by_gpu = gets_by_gpu(server);
  const double before = seconds_of(server.clock);
  const Round round = run(server, options);
  const double used = seconds_of(server.clock) - before;
  if (round.counts.answered == 0) {
    throw std::runtime_error(server.name + " has answered nothing in a round");
  }
  server.ns.push_back(used * 1e9 / static_cast<double>(round.counts.answered));
  server.rate.push_back(static_cast<double>(std::max<uint64_t>(round.in_time, 1)) /
                        options.seconds);
  server.latency.merge(round.counts.ns);
  server.answered += round.counts.answered;
  server.by_gpu += gets_by_gpu(server) - by_gpu;
  server.lost += round.counts.lost;
}

double ratio(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> ratios;
  for (size_t i = 0; i < of.size(); ++i) ratios.push_back(of[i] / to[i]);
  return median(ratios);
}

// Of the servers behind it.
std::string ratios(const std::vector<Server>& servers, size_t of,
                   std::vector<double> Server::*figure) {
  std::string text;
  for (size_t to = of + 1; to < servers.size(); ++to) {
    char one[64];
    std::snprintf(one, sizeof one, "%s%.3f of ", text.empty() ? " (" : ", ",
                  ratio(servers[of].*figure, servers[to].*figure));
    text += one + servers[to].name;
  }
  return text.empty() ? text : text + ")";
}

void print(const std::vector<Server>& servers) {
  uint64_t lost = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    const Server& server = servers[i];
    const auto us = [&](double percent) {
      return static_cast<double>(server.latency.percentile(percent)) / 1000;
    };
    std::printf("%-12s %8.0f ns a request%s, %.1f k/s%s, p50 %.0f us, p99 %.0f us",
                server.name.c_str(), median(server.ns), ratios(servers, i, &Server::ns).c_str(),
                median(server.rate) / 1000, ratios(servers, i, &Server::rate).c_str(), us(50),
                us(99));
    if (server.by_gpu != 0) {
      std::printf(", %.1f%% by the GPU", 100.0 * static_cast<double>(server.by_gpu) /
                                             static_cast<double>(server.answered));
    }
    std::printf("; %llu of %llu lost\n", static_cast<unsigned long long>(server.lost),
                static_cast<unsigned long long>(server.answered));
    lost += server.lost;
  }
  std::printf("%llu lost\n", static_cast<unsigned long long>(lost));
}

Server server_of(const std::string& word) {
  unsigned port = 0, udp = 0;
  int pid = 0;
  const size_t equals = word.find('=');
  const int given = equals == std::string::npos
                        ? 0
                        : std::sscanf(word.c_str() + equals + 1, "%u:%d:%u", &port, &pid, &udp);
  Server server{.name = word.substr(0, equals),
                .port = static_cast<uint16_t>(port),
                .data_port = static_cast<uint16_t>(given == 3 ? udp : port),
                .clock = 0};
  if (given < 2 || port > 65'535 || udp > 65'535) {
    throw std::runtime_error("a server is NAME=PORT:PID or NAME=PORT:PID:UDP, not " + word);
  }
  if (::clock_getcpuclockid(pid, &server.clock) != 0) {
    throw std::runtime_error("there is no process " + std::to_string(pid));
  }
  return server;
}

void bench(const Options& options, const std::vector<std::string>& names) {
  std::vector<Server> servers;
  for (const std::string& name : names) servers.push_back(server_of(name));
  isotherm::bench::print_environment("memcached_bench");
  std::printf("%u clients on %u threads, %u requests each, %u at once, %llu keys, values of %zu\n",
              options.clients, options.threads, options.load.window, options.load.burst,
              static_cast<unsigned long long>(options.keys), options.load.value_bytes);
  for (const Server& server : servers) {
    isotherm::bench::store_keys(server.port, options.keys, options.load.value_bytes);
  }
  for (const Server& server : servers) isotherm::bench::wait_until_quiet(server.clock);
  for (const Server& server : servers) run(server, options);
  for (int round = 0; round < options.rounds; ++round) {
    for (Server& server : servers) measure(server, options);
  }
  print(servers);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  isotherm::bench::ProgramFlags flags(
      "Requests a second, and processor time of servers per read of memcached clients.");
  flags.add_switch("--tcp", options.load.tcp, "instead of UDP");
  flags.add_switch("--mg", options.load.mg, "instead of get");
  flags.add("--clients", options.clients).between(1, 10'000);
  flags.add("--threads", options.threads, "of the clients").between(1, 1000);
  flags.add("--window", options.load.window, "requests of a client without a reply yet")
      .between(1, MemcachedReader::most_window);
  flags.add("--burst", options.load.burst, "requests that are sent together")
      .between(1, MemcachedReader::most_window);
  flags.add("--rounds", options.rounds).between(1, 1000);
  flags.add("--seconds", options.seconds);
  flags.add("--keys", options.keys).between(1, 1'000'000'000);
  flags.add("--value-size", options.load.value_bytes, "bytes")
      .between(1, MemcachedReader::most_value_bytes);
  flags.add("--patience-ms", options.patience_ms, "until a request by UDP is sent again")
      .between(1, 60'000);
  flags.add_rest("servers", names, "NAME=PORT:PID or NAME=PORT:PID:UDP each").required();
  flags.take(argc, argv);
  options.load.burst = std::min(options.load.burst, options.load.window);
  try {
    bench(options, names);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "memcached_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
