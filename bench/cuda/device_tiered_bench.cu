// gpu::Table with more entries than its cap on GPU memory has room for: once without a cap, then
// with caps that have room for a half and a quarter; keys and results on the GPU. Every reply is
// checked: calls with writes store other values than they find, and are replayed on a model. Beside
// it what threads of the host alone reach on such a table.
//
//   device_tiered_bench [--entries N] [--rounds N] [--threads N]
#include <chrono>
#include <cinttypes>
#include <string>
#include <thread>
#include <utility>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_replay.cuh"
#include "isotherm/fixed_table.h"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_tiered_bench {
namespace {

constexpr uint64_t rows = uint64_t{1} << 22;
constexpr int blocks = 2048;

struct Parameters {
  uint64_t entries = 100'000'000;
  int rounds = 7;
  uint32_t threads = std::max(std::thread::hardware_concurrency(), 1u);
};

class Tiered {
 public:
  explicit Tiered(const Parameters& parameters)
      : parameters_(parameters),
        all_rows_(rows * (static_cast<uint64_t>(parameters.rounds) + 1)),
        keys_(device_array<uint64_t>(all_rows_)),
        values_(device_array<uint64_t>(all_rows_)),
        out_(device_array<uint64_t>(all_rows_)),
        found_(device_array<uint8_t>(all_rows_)),
        ops_(device_array<TableOp>(all_rows_)),
        wrong_(device_array<unsigned long long>(1)) {
    check(cudaMemset(wrong_, 0, sizeof *wrong_));
  }

  int run() {
    const HostRates host = host_rates();
    std::printf("device_tiered_bench: %" PRIu64 " entries, 2^22 rows a call, median of %d; M/s\n",
                parameters_.entries, parameters_.rounds);
    std::printf("the host alone, %u threads: load %.0f, uniform gets %.0f\n", parameters_.threads,
                host.load, host.gets);
    std::printf("%-7s %8s %5s %11s %7s %9s %9s %9s %10s %6s\n", "cap", "on GPU", "host",
                "bins out/in", "load", "GET unif", "GET Zipf", "PUT unif", "95/5 Zipf", "wrong");
    uint64_t wrong = measure(0, 0);
    for (const uint64_t times : {2, 4}) wrong += measure(index_bytes_ / times, times);
    return end_with(wrong);
  }

 private:
  // Of a table in host memory, M/s.
  struct HostRates {
    double load;
    double gets;
  };
  HostRates host_rates() const {
    constexpr uint64_t part = 1 << 16;
    constexpr uint64_t calls = 64;
    const uint64_t threads = parameters_.threads;
    FixedTable table;
    const double load = seconds_of([&](uint32_t thread) {
      FixedHandle handle(table);
      std::vector<uint64_t> keys(part), values(part);
      for (uint64_t first = thread * part; first < parameters_.entries; first += part * threads) {
        for (uint64_t i = 0; i < part; ++i) {
          keys[i] = scramble(first + i + 1);
          values[i] = keys[i] * 3;
        }
        handle.put(keys, values);
      }
    });
    const double gets = seconds_of([&](uint32_t thread) {
      FixedHandle handle(table);
      std::vector<uint64_t> keys(part), values(part);
      std::vector<uint8_t> found(part);
      for (uint64_t call = 0; call < calls; ++call) {
        for (uint64_t i = 0; i < part; ++i) {
          const uint64_t number = scramble(i + part * (thread * calls + call));
          keys[i] = scramble(number % parameters_.entries + 1);
        }
        handle.get(keys, values, found);
      }
    });
    return {static_cast<double>(parameters_.entries) / load / 1e6,
            static_cast<double>(part * calls * threads) / gets / 1e6};
  }
  // What all threads together take.
  template <class Work>
  double seconds_of(Work&& work) const {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < parameters_.threads; ++i)
      threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // Wrong replies and entries since the last time.
  uint64_t measure(uint64_t gpu_memory, uint64_t times) {
    gpu::TableOptions options;
    options.gpu_memory = gpu_memory;
    if (times != 0) options.host_index_memory = uint64_t{32} << 30;
    options.host_threads = parameters_.threads;
    gpu::Table table(options);
    const double load = fill(table);
    const gpu::TableStats stats = table.stats();
    if (times == 0) index_bytes_ = stats.bytes + stats.workspace;
    model_.fill();
    const double uniform = gets(table, false), zipf = gets(table, true);
    const double puts = present(table), mix = mixed(table);
    const gpu::TableStats after = table.stats();
    unsigned long long wrong = 0;
    check(cudaMemcpy(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost));
    check(cudaMemset(wrong_, 0, sizeof *wrong_));
    wrong += std::exchange(replayed_wrong_, 0) + (after.entries != model_.entries() ? 1 : 0);
    const std::string name = times == 0 ? "no cap" : "1/" + std::to_string(times);
    const std::string moved =
        std::to_string(after.bins_to_host) + "/" + std::to_string(after.bins_to_device);
    std::printf(
        "%-7s %7.0fM %4.0f%% %11s %7.0f %9.0f %9.0f %9.0f %10.0f %6llu\n", name.c_str(),
        static_cast<double>(after.bytes + after.workspace) / 1e6,
        100.0 * static_cast<double>(after.host_entries) / static_cast<double>(after.entries),
        moved.c_str(), load, uniform, zipf, puts, mix, wrong);
    std::fflush(stdout);
    return wrong;
  }

  double fill(gpu::Table& table) {
    double took = 0;
    for (uint64_t first = 0; first < parameters_.entries; first += rows) {
      const uint64_t part = std::min(rows, parameters_.entries - first);
      fresh_keys<<<blocks, 256>>>(keys_, values_, part, first);
      took += median_seconds(0, [&](int) { table.put(keys_, values_, part, nullptr); });
    }
    return static_cast<double>(parameters_.entries) / took / 1e6;
  }
  double gets(gpu::Table& table, bool zipf) {
    double rate = 0;
    for (uint64_t seed = 5; seed < 8; ++seed) {  // bins may move meanwhile; the last counts
      draw_keys<<<blocks, 256>>>(keys_, rows, parameters_.entries, zipf, false, seed);
      forget_replies(out_, found_, rows);
      rate = timed([&](int) { table.get(keys_, out_, found_, rows, nullptr); });
      count_wrong<<<blocks, 256>>>(keys_, out_, found_, rows, true, wrong_);
    }
    return rate;
  }
  double present(gpu::Table& table) {
    draw_keys<<<blocks, 256>>>(keys_, all_rows_, parameters_.entries, false, false, 9);
    draw_writes<<<blocks, 256>>>(nullptr, values_, all_rows_, 1, ++seed_);
    TableRequests all;
    all.rows = all_rows_;
    all.op = TableOp::put;
    all.keys = keys_;
    all.values = values_;
    return replayed(table, all);
  }
  double mixed(gpu::Table& table) {
    draw_keys<<<blocks, 256>>>(keys_, all_rows_, parameters_.entries, true, false, 11);
    draw_writes<<<blocks, 256>>>(ops_, values_, all_rows_, 20, ++seed_);
    forget_replies(out_, found_, all_rows_);
    TableRequests all;
    all.rows = all_rows_;
    all.ops = ops_;
    all.keys = keys_;
    all.values = values_;
    all.values_out = out_;
    all.found = found_;
    return replayed(table, all);
  }
  // Calls with rows of their own each, which are then replayed.
  double replayed(gpu::Table& table, const TableRequests& all) {
    const double rate = timed([&](int round) {
      table.run(rows_of(all, rows * static_cast<uint64_t>(round), rows), nullptr);
    });
    replayed_wrong_ += replay_.replay(all);
    replayed_wrong_ +=
        replay_.read_all(keys_, values_, out_, found_, rows,
                         [&](const TableRequests& gets) { table.run(gets, nullptr); });
    return rate;
  }
  // M/s.
  template <class Call>
  double timed(Call&& call) const {
    check(cudaDeviceSynchronize());
    return static_cast<double>(rows) / median_seconds(parameters_.rounds, call) / 1e6;
  }

  const Parameters parameters_;
  const uint64_t all_rows_;  // of all calls of a kind
  uint64_t* keys_;
  uint64_t* values_;
  uint64_t* out_;
  uint8_t* found_;
  TableOp* ops_;
  unsigned long long* wrong_;
  uint64_t index_bytes_ = 0;  // of the table without a cap
  ReplayedTable model_{parameters_.entries};
  GpuReplay replay_{model_};
  uint64_t seed_ = 0;  // of what is written
  uint64_t replayed_wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_tiered_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_tiered_bench;
  Parameters parameters;
  if (!begin_bench("device_tiered_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--rounds", parameters.rounds),
                    flag("--threads", parameters.threads)})) {
    return EXIT_SUCCESS;
  }
  return Tiered(parameters).run();
}
