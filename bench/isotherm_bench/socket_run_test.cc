#include "isotherm_bench/socket_run.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "isotherm_bench/floor_server.h"
#include "isotherm_bench/spawned_server.h"

namespace isotherm::bench::socket_run_test {
namespace {

Workload small_workload() {
  Workload workload;
  workload.records = 1000;
  return workload;
}

// A server that answers GETs on one connection, or answers all with `answer`; it sleeps once, at
// `slow_turn`.
class SlowServer {
 public:
  SlowServer(std::string answer, int slow_turn, int delay_ms)
      : answer_(std::move(answer)), slow_turn_(slow_turn), delay_ms_(delay_ms) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~SlowServer() {
    thread_.join();
    close(listener_);
  }
  uint16_t port() const { return port_; }

 private:
  void serve() {
    const int fd = accept(listener_, nullptr, nullptr);
    char buffer[4096];
    std::string input, output;
    for (int turn = 0;; ++turn) {
      const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) break;
      if (turn == slow_turn_) usleep(static_cast<useconds_t>(delay_ms_) * 1000);
      input.append(buffer, static_cast<size_t>(got));
      output.clear();
      input.erase(0, answer_floor(WireProtocol::redis, input, "value", output));
      if (!answer_.empty()) output = answer_;
      if (send(fd, output.data(), output.size(), MSG_NOSIGNAL) < 0) break;
    }
    close(fd);
  }

  std::string answer_;
  int slow_turn_;
  int delay_ms_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

class FloorRun : public ::testing::TestWithParam<WireProtocol> {
 protected:
  FloorRun()
      : server_(
            [](uint16_t* port) { return fork_floor_server(GetParam(), small_workload(), port); }) {
    system_.protocol = GetParam();
    system_.host = "127.0.0.1";
    system_.port = server_.port();
    system_.pid = server_.pid();
    options_.seconds = 0.3;
    options_.warm_up = 0.05;
    options_.connections = 7;
    options_.threads = 2;
  }

  SpawnedServer server_;
  System system_;
  RunOptions options_;
  Progress progress_{false};
};

TEST_P(FloorRun, LoadsAndCounts) {
  const Workload workload = small_workload();
  const LoadResult load = load_records(system_, workload, progress_);
  EXPECT_EQ(load.failure, "");
  EXPECT_EQ(load.records, workload.records);
  EXPECT_TRUE(load.resident_after);
  options_.pipeline = 5;
  options_.requests = 10'000;
  const RunResult run = run_sockets(system_, workload, options_, progress_);
  EXPECT_EQ(run.failure, "");
  EXPECT_GE(run.counts.requests, 10'000u);
  EXPECT_EQ(run.counts.latency.count(), run.counts.commands);
  EXPECT_EQ(run.counts.misses, 0u);
  EXPECT_TRUE(run.server_cpu);
}

TEST_P(FloorRun, SeveralKeysAndAllOperations) {
  Workload workload = small_workload();
  workload.keys_per_read = 10;
  workload.mix = {60, 10, 10, 0, 10, 10};
  system_.keys.present = system_.keys.next = workload.records;
  const RunResult run = run_sockets(system_, workload, options_, progress_);
  EXPECT_EQ(run.failure, "");
  EXPECT_GT(run.counts.requests, run.counts.commands);
  EXPECT_GT(system_.keys.present, workload.records);
}

TEST_P(FloorRun, OpenLoopAnswersWhatIsDue) {
  options_.rate = 2000;
  const RunResult run = run_sockets(system_, small_workload(), options_, progress_);
  EXPECT_EQ(run.failure, "");
  // Every command due in the time is in the histogram, answered or not.
  const double due = options_.rate * run.seconds;
  EXPECT_NEAR(static_cast<double>(run.counts.latency.count()), due, due / 4);
}

INSTANTIATE_TEST_SUITE_P(Protocols, FloorRun,
                         ::testing::Values(WireProtocol::redis, WireProtocol::memcached),
                         [](const auto& protocol) {
                           return std::string(to_string(protocol.param));
                         });

RunResult run_against(uint16_t port, const RunOptions& options) {
  Workload workload = small_workload();
  workload.mix = {100, 0, 0, 0, 0, 0};
  System system;
  system.host = "127.0.0.1";
  system.port = port;
  system.keys.present = workload.records;
  Progress progress(false);
  return run_sockets(system, workload, options, progress);
}

TEST(SocketRun, AStallShowsInEveryCommandThatFellIntoIt) {
  SlowServer server("", 20, 300);
  RunOptions options;
  options.connections = 1;
  options.pipeline = 1;
  options.rate = 1000;
  options.poisson = false;
  options.warm_up = 0;
  options.seconds = 0.6;
  const RunResult run = run_against(server.port(), options);
  EXPECT_EQ(run.failure, "");
  // 300 commands were due while the server slept; a third of them waited for 200 ms and more,
  // though a single one was under way.
  EXPECT_GE(run.counts.latency.max(), 290'000'000u);
  EXPECT_GE(run.counts.latency.percentile(90), 200'000'000u);
}

TEST(SocketRun, AnErrorReplyFailsTheRun) {
  SlowServer server("-ERR no\r\n", -1, 0);
  RunOptions options;
  options.connections = 1;
  options.seconds = 5;
  EXPECT_NE(run_against(server.port(), options).failure.find("-ERR no"), std::string::npos);
}

TEST(SocketRun, AnUnaskedReplyFailsTheRun) {
  SlowServer server("$-1\r\n$-1\r\n", -1, 0);
  RunOptions options;
  options.connections = 1;
  options.seconds = 5;
  EXPECT_NE(run_against(server.port(), options).failure.find("more than it was asked"),
            std::string::npos);
}

TEST(SocketRun, AServerThatFallsSilentFailsTheRun) {
  SlowServer server("$5\r\nva", -1, 0);  // the rest of the reply never comes
  RunOptions options;
  options.connections = 1;
  options.requests = 5;
  options.patience_ns = 20'000'000;
  EXPECT_NE(run_against(server.port(), options).failure.find("no reply for"), std::string::npos);
}

TEST(SocketRun, NobodyThereFailsTheRun) {
  EXPECT_NE(run_against(free_port(), RunOptions{}).failure.find("cannot connect"),
            std::string::npos);
}

TEST(Process, FindsItselfBehindAPort) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(listening_process(ntohs(address.sin_port)), getpid());
  close(listener);
  EXPECT_FALSE(listening_process(ntohs(address.sin_port)));
  EXPECT_TRUE(process_cpu(getpid()));
  EXPECT_GT(resident_bytes(getpid()).value_or(0), 1'000'000u);
}

TEST(SpawnedServer, TellsWhyItDoesNotStart) {
  std::string error;
  SpawnedServer server({"sh", "-c", "echo no luck >&2; exit 3"}, {free_port()}, &error);
  EXPECT_NE(error.find("no luck"), std::string::npos);
}

}  // namespace
}  // namespace isotherm::bench::socket_run_test
