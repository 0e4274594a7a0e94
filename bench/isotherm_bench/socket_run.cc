#include "isotherm_bench/socket_run.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "isotherm_bench/memory_watch.h"

namespace isotherm::bench {
namespace {

constexpr uint32_t load_connections = 8;
constexpr uint32_t load_pipeline = 64;
constexpr uint64_t load_window_bytes = 1 << 20;  // under way on one connection

// The load threads of one run, and the waiting for them.
class Clients {
 public:
  Clients(const System& system, const Workload& workload, KeySpace& keys,
          const RunOptions& options) {
    const uint32_t threads = std::clamp<uint32_t>(options.threads, 1, options.connections);
    for (uint32_t i = 0; i < threads; ++i) {
      SocketLoad load;
      load.host = system.host;
      load.port = system.port;
      load.protocol = system.protocol;
      load.connections = options.connections / threads + (i < options.connections % threads);
      load.pipeline = options.pipeline;
      load.rate = options.rate / threads;
      load.poisson = options.poisson;
      load.requests = options.requests / threads + (i < options.requests % threads);
      load.patience_ns = options.patience_ns;
      load.verify = options.verify && system.stores;
      clients_.push_back(std::make_unique<SocketClient>(load, workload, keys, control_, i));
    }
    for (auto& client : clients_) {
      threads_.emplace_back([&client] { client->run(); });
    }
    while (control_.prepared.load(std::memory_order_acquire) < threads) usleep(poll_us);
  }
  ~Clients() { join(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  Control& control() { return control_; }
  bool failed() const { return control_.has_failed.load(); }
  uint64_t answered() const { return control_.answered.load(std::memory_order_relaxed); }

  void enter(Phase phase) {
    // A failure has already stopped everybody.
    if (!failed()) control_.phase.store(phase, std::memory_order_release);
  }
  // Until all threads have ended, one failed, or the time is up (0: no limit).
  void wait(double seconds, const std::function<void()>& watch) {
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    while (!failed() && control_.finished.load(std::memory_order_acquire) < clients_.size()) {
      const int64_t left = end - now_ns();
      if (seconds > 0 && left <= 0) break;
      usleep(seconds > 0 ? static_cast<useconds_t>(std::min<int64_t>(left / 1000 + 1, poll_us))
                         : poll_us);
      watch();
    }
  }
  std::string join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    std::lock_guard lock(control_.mutex);
    return control_.failure;
  }
  Counts counts() const {
    Counts all;
    for (const auto& client : clients_) all.merge(client->counts());
    return all;
  }

 private:
  Control control_;
  std::vector<std::unique_ptr<SocketClient>> clients_;
  std::vector<std::thread> threads_;
};

template <typename Read>
auto of_server(const System& system, Read read) -> decltype(read(system.pid)) {
  if (system.pid == 0) return std::nullopt;
  return read(system.pid);
}

std::optional<CpuTime> difference(const std::optional<CpuTime>& end,
                                  const std::optional<CpuTime>& begin) {
  if (!begin || !end) return std::nullopt;
  return *end - *begin;
}

double seconds_between(int64_t begin, int64_t end) {
  return static_cast<double>(end - begin) / 1e9;
}

}  // namespace

LoadResult load_records(System& system, const Workload& workload, Progress& progress) {
  Workload inserts = workload;
  inserts.mix = {0, 0, 100, 0, 0, 0};
  inserts.keys_per_read = 1;
  system.keys.next = 0;
  system.keys.present = 0;
  system.keys.limit = workload.records;
  RunOptions options;
  options.connections = load_connections;
  options.pipeline = static_cast<uint32_t>(std::clamp<uint64_t>(
      load_window_bytes / (workload.value_size_max + workload.key_size), 1, load_pipeline));
  progress.stage("load " + system.label);

  LoadResult result;
  result.resident_before = of_server(system, resident_bytes);
  const auto cpu_begin = of_server(system, process_cpu);
  MemoryWatch memory(system.pid, system.keys, workload.records);
  const int64_t begin = now_ns();
  Clients clients(system, inserts, system.keys, options);
  clients.control().measure_begin = begin;
  clients.enter(Phase::measure);
  clients.wait(0, [&] {
    progress.update(clients.answered());
    memory.look();
  });
  clients.control().stop(now_ns());
  result.failure = clients.join();
  result.seconds = seconds_between(begin, now_ns());
  result.server_cpu = difference(of_server(system, process_cpu), cpu_begin);
  memory.look();
  result.resident_after = of_server(system, resident_bytes);
  result.records = system.keys.present;
  result.worst_bytes_per_record = memory.worst();
  if (result.failure.empty() && result.records != workload.records) {
    result.failure = "only " + std::to_string(result.records) + " of " +
                     std::to_string(workload.records) + " records were stored";
  }
  system.keys.next = workload.records;
  system.keys.present = workload.records;
  system.keys.limit = ~uint64_t{0};
  progress.clear();
  return result;
}

RunResult run_sockets(System& system, const Workload& workload, const RunOptions& options,
                      Progress& progress) {
  RunResult result;
  progress.stage(system.label + " " + workload.name);
  Clients clients(system, workload, system.keys, options);
  const auto watch = [&] { progress.update(clients.answered()); };
  clients.enter(Phase::warm_up);
  if (options.warm_up > 0) clients.wait(options.warm_up, watch);

  const auto cpu_begin = of_server(system, process_cpu);
  const CpuTime own_begin = own_cpu();
  const int64_t begin = now_ns();
  clients.control().measure_begin = begin;
  clients.enter(Phase::measure);
  clients.wait(options.requests > 0 ? 0 : options.seconds, watch);
  const int64_t end = now_ns();
  result.server_cpu = difference(of_server(system, process_cpu), cpu_begin);
  result.client_cpu = own_cpu() - own_begin;
  clients.control().stop(end);
  result.failure = clients.join();
  result.server_resident = of_server(system, resident_bytes);
  result.seconds = seconds_between(begin, end);
  result.counts = clients.counts();
  result.counts.rate = static_cast<double>(result.counts.requests) / result.seconds;
  progress.clear();
  return result;
}

}  // namespace isotherm::bench
