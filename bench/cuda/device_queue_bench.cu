// gpu::Queue: latency of GETs that several threads offer at a given rate in open loop, for each
// scheduling policy; and the times of batches alone, with the cycles that follow from them. With
// --one-put-in N every N-th submission of a thread is of PUTs, or of erases. Every reply is
// checked.
//
//   device_queue_bench [--entries N] [--seconds S] [--clients N] [--gap-us N] [--rate N]
//                      [--policy NAME] [--one-put-in N]
#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "batch/cost_model.h"
#include "batch/periodic_policy.h"
#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/offered_requests.h"
#include "cuda/replayed_table.h"

namespace isotherm::bench::device_queue_bench {
namespace {

struct Parameters {
  uint64_t entries = 100'000'000;
  double seconds = 2;
  uint32_t clients = 8;
  int64_t gap_us = 3;
  std::vector<double> rates = {1e6, 10e6, 100e6};
  std::string policy;  // part of its name; empty: all
  uint64_t one_put_in = 0;
};

constexpr double us = 1e3;
constexpr uint64_t most_keys_of_client = 1 << 18;

// A queue to measure.
struct Setting {
  std::string name;
  SchedulingOptions scheduling;
};

class Bench {
 public:
  explicit Bench(const Parameters& parameters) : parameters_(parameters) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    blocks_ = static_cast<uint32_t>(properties.multiProcessorCount) * 16;
    std::printf(
        "device_queue_bench: %s, %u cores, %llu entries, %u clients, a submission of each every "
        "%lld us, %.1f s a line\n",
        properties.name, std::thread::hardware_concurrency(),
        static_cast<unsigned long long>(parameters.entries), parameters.clients,
        static_cast<long long>(parameters.gap_us), parameters.seconds);
    fill();
    make_clients();
  }

  int run() {
    measure_costs();
    std::printf("\n%-26s %9s %9s %8s %8s %8s %9s %9s %8s %7s\n", "policy", "offered", "answered",
                "p50 us", "p99 us", "p99.9 us", "max us", "rows a", "in 3 C", "refused");
    std::printf("%-26s %9s %9s %8s %8s %8s %9s %9s %8s %7s\n", "", "M/s", "M/s", "", "", "", "",
                "batch", "%", "calls");
    for (const double rate : parameters_.rates) {
      for (const Setting& setting : settings(rate)) {
        if (setting.name.find(parameters_.policy) == std::string::npos) continue;
        measure(setting, rate);
      }
    }
    for (const auto& client : clients_) wrong_ += client->check_all(*table_);
    return end_with(wrong_);
  }

 private:
  void fill() {
    constexpr uint64_t rows = uint64_t{1} << 22;
    gpu::TableOptions options;
    options.expected_entries = parameters_.entries;
    table_ = std::make_unique<gpu::Table>(options);
    auto* keys = device_array<uint64_t>(rows);
    auto* values = device_array<uint64_t>(rows);
    for (uint64_t first = 0; first < parameters_.entries; first += rows) {
      const uint64_t filled = std::min(rows, parameters_.entries - first);
      fresh_keys<<<blocks_, 256>>>(keys, values, filled, first);
      table_->put(keys, values, filled, nullptr);
      check(cudaDeviceSynchronize());
    }
    check(cudaFree(keys));
    check(cudaFree(values));
  }

  // Keys of a client, by its number: others than those of any other, in no order.
  std::vector<uint64_t> keys_of(uint64_t client) const {
    const uint64_t clients = parameters_.clients + 1;
    const uint64_t count = std::min(most_keys_of_client, parameters_.entries / clients);
    const uint64_t apart = parameters_.entries / (clients * count);
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i) keys[i] = scramble((i * clients + client) * apart + 1);
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(client));
    return keys;
  }

  void make_clients() {
    for (uint32_t i = 0; i < parameters_.clients; ++i) {
      clients_.push_back(std::make_unique<OfferedRequests>(keys_of(i)));
    }
  }

  // Batches alone on the device, of the sizes that the policies make.
  void measure_costs() {
    constexpr int rounds = 300;
    gpu::QueueOptions options;
    options.scheduling.policy = Scheduling::greedy;  // launched kernels only
    gpu::Queue queue(*table_, options);
    const std::vector<uint64_t> keys = keys_of(parameters_.clients);
    ForeseenReplies foreseen(keys);
    ForeseenReplies::Columns columns(keys.size());
    std::vector<uint64_t> values_out(keys.size());
    std::vector<uint8_t> found(keys.size());
    std::printf("a batch alone, submission to reply, median of %d:\n", rounds);
    for (const TableOp op : {TableOp::get, TableOp::put}) {
      CostModel costs;
      for (const uint64_t rows : {1, 64, 512, 1024, 2048, 4096, 8192, 16384}) {
        if (rows > keys.size()) break;
        TableRequests requests;
        requests.rows = rows;
        requests.op = op;
        requests.keys = keys.data();
        requests.values = columns.put.data();
        requests.values_out = values_out.data();
        requests.found = found.data();
        std::vector<double> took;
        for (int round = 0; round < rounds; ++round) {
          gpu::Completion completion;
          foreseen.foresee(op, 0, rows, columns);
          std::fill_n(found.begin(), rows, ForeseenReplies::unanswered);
          const int64_t begin = clock_ns();
          if (queue.submit(requests, completion) != gpu::QueueStatus::ok) ++wrong_;
          completion.wait();
          took.push_back(static_cast<double>(clock_ns() - begin));
          wrong_ += ForeseenReplies::wrong(columns, rows, values_out.data(), found.data());
          foreseen.apply(op, 0, rows, columns);
        }
        std::nth_element(took.begin(), took.begin() + rounds / 2, took.end());
        std::printf("  %s %5llu rows  %7.1f us\n", op == TableOp::get ? "GET" : "PUT",
                    static_cast<unsigned long long>(rows), took[rounds / 2] / us);
        costs.add(rows, took[rounds / 2]);
      }
      (op == TableOp::get ? read_cost_ : write_cost_) = costs.fit();
    }
    std::printf("fitted: reads %.1f us + %.3f ns a row, writes %.1f us + %.3f ns a row\n",
                read_cost_.fixed_ns / us, read_cost_.row_ns, write_cost_.fixed_ns / us,
                write_cost_.row_ns);
    for (const double rate : parameters_.rates) {
      for (const double read_share : {1.0, 0.95}) print_bound(rate, read_share);
    }
  }

  void print_bound(double rate, double read_share) const {
    try {
      const double bound = PeriodicPolicy::least_cycle(periodic(rate, read_share));
      std::printf("least cycle at %.0f M/s, %.0f %% reads: %.1f us\n", rate / 1e6, read_share * 100,
                  bound / us);
    } catch (const std::invalid_argument& error) {
      std::printf("%.0f M/s, %.0f %% reads: %s\n", rate / 1e6, read_share * 100, error.what());
    }
  }

  PeriodicOptions periodic(double rate, double read_share) const {
    PeriodicOptions options;
    options.rate = rate;
    options.read_share = read_share;
    options.read_cost = read_cost_;
    options.write_cost = write_cost_;
    return options;
  }

  std::vector<Setting> settings(double rate) const {
    std::vector<Setting> settings;
    for (const uint32_t batches : {1, 2, 3}) {
      Setting greedy{"greedy, " + std::to_string(batches) + " on the device", {}};
      greedy.scheduling.greedy.most_on_device = batches;
      settings.push_back(greedy);
    }
    for (const int64_t cycle_us : {0, 25, 50}) {
      Setting cycle{cycle_us == 0 ? "periodic, least C x 1.25"
                                  : "periodic, C " + std::to_string(cycle_us) + " us",
                    {}};
      cycle.scheduling.policy = Scheduling::periodic;
      cycle.scheduling.periodic = periodic(rate, read_share());
      cycle.scheduling.periodic.cycle_ns = cycle_us * 1000;
      settings.push_back(cycle);
    }
    for (const uint64_t rows : {512, 2048}) {
      Setting fixed{"fixed size " + std::to_string(rows) + ", 100 us", {}};
      fixed.scheduling.policy = Scheduling::fixed_size;
      fixed.scheduling.fixed_size.rows = rows;
      settings.push_back(fixed);
    }
    Setting adaptive{"adaptive", {}};
    adaptive.scheduling.policy = Scheduling::adaptive;
    settings.push_back(adaptive);
    return settings;
  }

  double read_share() const {
    return parameters_.one_put_in == 0 ? 1 : 1 - 1 / static_cast<double>(parameters_.one_put_in);
  }

  void measure(const Setting& setting, double rate) {
    gpu::QueueOptions options;
    options.scheduling = setting.scheduling;
    int64_t cycle = 0;
    std::optional<gpu::Queue> queue;
    try {
      if (setting.scheduling.policy == Scheduling::periodic) {
        cycle = PeriodicPolicy(setting.scheduling.periodic).cycle();
      }
      queue.emplace(*table_, options);
    } catch (const std::invalid_argument& error) {
      std::printf("%-26s %9.0f %s\n", setting.name.c_str(), rate / 1e6, error.what());
      return;
    }
    const int64_t measured_from = offer(*queue, rate, cycle);
    report(setting, rate, cycle, measured_from, queue->stats());
    if (!queue->failure().empty()) std::printf("  failed: %s\n", queue->failure().c_str());
  }

  // All clients at once; returns when measuring began.
  int64_t offer(gpu::Queue& queue, double rate, int64_t cycle) {
    constexpr int64_t start = 20'000'000;
    constexpr int64_t warm_up = 200'000'000;
    OfferedRequests::Plan plan;
    plan.rate = rate / parameters_.clients;
    plan.gap_ns = parameters_.gap_us * 1000;
    plan.within_ns = 3 * cycle;
    plan.one_put_in = parameters_.one_put_in;
    const int64_t begin = clock_ns() + start;
    plan.measured_from = begin + warm_up;
    plan.end = plan.measured_from + static_cast<int64_t>(parameters_.seconds * 1e9);
    results_.assign(clients_.size(), {});
    std::vector<std::thread> threads;
    for (size_t i = 0; i < clients_.size(); ++i) {
      // Clients must not all fire together.
      plan.begin = begin + static_cast<int64_t>(static_cast<double>(i) * 1e9 / rate);
      threads.emplace_back(
          [this, i, plan, &queue] { results_[i] = clients_[i]->run(queue, plan); });
    }
    for (std::thread& thread : threads) thread.join();
    return plan.measured_from;
  }

  void report(const Setting& setting, double rate, int64_t cycle, int64_t measured_from,
              const gpu::QueueStats& stats) {
    OfferedRequests::Result sum;
    for (const OfferedRequests::Result& result : results_) {
      sum.gets.merge(result.gets);
      sum.puts.merge(result.puts);
      sum.rows += result.rows;
      sum.within += result.within;
      sum.wrong += result.wrong;
      sum.retries += result.retries;
      sum.last_reply = std::max(sum.last_reply, result.last_reply);
    }
    wrong_ += sum.wrong;
    const auto micros = [&](double percent) {
      return static_cast<double>(sum.gets.percentile(percent)) / us;
    };
    const double answered =
        static_cast<double>(sum.rows) * 1e9 /
        static_cast<double>(std::max<int64_t>(sum.last_reply - measured_from, 1));
    const uint64_t batches = std::max<uint64_t>(stats.read_batches + stats.write_batches, 1);
    std::printf("%-26s %9.1f %9.2f %8.1f %8.1f %8.1f %9.1f %9.0f", setting.name.c_str(), rate / 1e6,
                answered / 1e6, micros(50), micros(99), micros(99.9),
                static_cast<double>(sum.gets.max()) / us,
                static_cast<double>(stats.rows) / static_cast<double>(batches));
    if (cycle != 0) {
      std::printf(" %8.3f", 100 * static_cast<double>(sum.within) /
                                static_cast<double>(std::max<uint64_t>(sum.gets.count(), 1)));
    } else {
      std::printf(" %8s", "");
    }
    std::printf(" %7llu", static_cast<unsigned long long>(sum.retries));
    if (cycle != 0) std::printf("  C %.1f us", static_cast<double>(cycle) / us);
    if (sum.puts.count() != 0) {
      std::printf("  PUTs p50 %.1f, p99 %.1f us", static_cast<double>(sum.puts.percentile(50)) / us,
                  static_cast<double>(sum.puts.percentile(99)) / us);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  const Parameters parameters_;
  uint32_t blocks_ = 0;
  std::unique_ptr<gpu::Table> table_;
  std::vector<std::unique_ptr<OfferedRequests>> clients_;
  std::vector<OfferedRequests::Result> results_;
  BatchCost read_cost_;
  BatchCost write_cost_;
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_queue_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_queue_bench;
  Parameters parameters;
  double rate = 0;
  if (!begin_bench("device_queue_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--seconds", parameters.seconds),
                    flag("--clients", parameters.clients), flag("--gap-us", parameters.gap_us),
                    flag("--rate", rate), flag("--policy", parameters.policy),
                    flag("--one-put-in", parameters.one_put_in)})) {
    return EXIT_SUCCESS;
  }
  if (rate > 0) parameters.rates = {rate};
  return Bench(parameters).run();
}
