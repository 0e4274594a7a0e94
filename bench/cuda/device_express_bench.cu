// Latency of few requests at a time on a gpu::Table, from arrays in host memory: by the express
// path and without it, beside launching an empty kernel and waiting for it. Every reply is checked,
// and all keys that were put are read; mixed calls are replayed on a model.
//
//   device_express_bench [--entries N] [--calls N]
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/replayed_table.h"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_express_bench {
namespace {

struct Parameters {
  uint64_t entries = 100'000'000;
  uint64_t calls = 20'000;
};

__global__ void empty_kernel() {}

struct Microseconds {
  double p50;
  double p99;
  double most;
};

// Of call(), prepared and looked at outside of what is timed.
template <class Prepare, class Call, class Look>
Microseconds latency(uint64_t calls, Prepare&& prepare, Call&& call, Look&& look) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> took(calls);
  for (uint64_t i = 0; i < calls; ++i) {
    prepare(i);
    const auto begin = Clock::now();
    call();
    took[i] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    look();
  }
  std::sort(took.begin(), took.end());
  return {took[calls / 2], took[calls * 99 / 100], took.back()};
}

class Bench {
 public:
  explicit Bench(const Parameters& parameters) : parameters_(parameters) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    std::printf("device_express_bench: %s, %llu entries, %llu calls a row; microseconds\n",
                properties.name, static_cast<unsigned long long>(parameters.entries),
                static_cast<unsigned long long>(parameters.calls));
    std::printf("%-44s %8s %8s %8s\n", "", "p50", "p99", "most");
  }

  int run() {
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto launch = [&] {
      empty_kernel<<<1, 32, 0, stream>>>();
      check(cudaStreamSynchronize(stream));
    };
    print("an empty kernel, launched and awaited",
          latency(
              parameters_.calls, [](uint64_t) {}, launch, [] {}));
    check(cudaStreamDestroy(stream));
    for (const bool express : {true, false}) {
      gpu::TableOptions options;
      options.express = express;
      options.expected_entries = parameters_.entries;
      table_ = std::make_unique<gpu::Table>(options);
      fill();
      for (const uint64_t rows : {1, 8, 64, 512}) gets(express, rows);
      for (const uint64_t rows : {1, 8, 64, 512}) puts(express, rows);
      model_.fill();
      for (const uint64_t rows : {1, 8, 64, 512}) mixed(express, rows);
      table_.reset();
    }
    return end_with(wrong_);
  }

 private:
  void fill() {
    constexpr uint64_t rows = uint64_t{1} << 24;
    auto* keys = device_array<uint64_t>(rows);
    auto* values = device_array<uint64_t>(rows);
    for (uint64_t first = 0; first < parameters_.entries; first += rows) {
      const uint64_t part = std::min(rows, parameters_.entries - first);
      fresh_keys<<<2048, 256>>>(keys, values, part, first);
      table_->put(keys, values, part, nullptr);
    }
    check(cudaDeviceSynchronize());
    check(cudaFree(keys));
    check(cudaFree(values));
  }

  void gets(bool express, uint64_t rows) {
    std::vector<uint64_t> keys(rows), values(rows);
    std::vector<uint8_t> found(rows);
    report(
        "GET", express, rows,
        [&](uint64_t) {
          for (uint64_t& key : keys) key = present_key();
          found.assign(rows, ReplayedTable::untouched_byte);
        },
        [&] { table_->get(keys, values, found); },
        [&] {
          for (uint64_t i = 0; i < rows; ++i) wrong_ += found[i] != 1 || values[i] != keys[i] * 3;
        });
  }

  // Of keys that are absent, so each inserts; afterwards they all are read.
  void puts(bool express, uint64_t rows) {
    std::vector<uint64_t> keys(rows), values(rows);
    const auto prepare = [&](uint64_t call) {
      for (uint64_t i = 0; i < rows; ++i) {
        keys[i] = scramble(parameters_.entries * 9 + (uint64_t{rows} << 40) + call * rows + i);
        values[i] = keys[i] * 3;
      }
    };
    report(
        "PUT of new keys", express, rows, prepare, [&] { table_->put(keys, values); }, [] {});
    std::vector<uint64_t> values_out(rows);
    std::vector<uint8_t> found(rows);
    for (uint64_t call = 0; call < parameters_.calls; ++call) {
      prepare(call);
      found.assign(rows, ReplayedTable::untouched_byte);
      table_->get(keys, values_out, found);
      for (uint64_t i = 0; i < rows; ++i) wrong_ += found[i] != 1 || values_out[i] != values[i];
    }
  }

  // A half gets, the rest puts of other values and erases, of a few thousand keys.
  void mixed(bool express, uint64_t rows) {
    std::vector<uint64_t> keys(rows), values(rows), values_out(rows);
    std::vector<uint8_t> found(rows);
    std::vector<TableOp> ops(rows);
    TableRequests requests;
    requests.rows = rows;
    requests.ops = ops.data();
    requests.keys = keys.data();
    requests.values = values.data();
    requests.values_out = values_out.data();
    requests.found = found.data();
    const auto forget = [&] {
      values_out.assign(rows, ReplayedTable::untouched);
      found.assign(rows, ReplayedTable::untouched_byte);
    };
    report(
        "GET, PUT and erase", express, rows,
        [&](uint64_t) {
          for (uint64_t i = 0; i < rows; ++i) {
            keys[i] = scramble(random_() % std::min<uint64_t>(parameters_.entries, 5000) + 1);
            values[i] = random_();
            const uint64_t kind = random_() % 8;
            ops[i] = kind < 4 ? TableOp::get : kind == 4 ? TableOp::erase : TableOp::put;
          }
          forget();
        },
        [&] { table_->run_host(requests); },
        [&] {
          wrong_ += model_.replay(requests);
          forget();
        });
  }

  template <class Prepare, class Call, class Look>
  void report(const char* name, bool express, uint64_t rows, Prepare&& prepare, Call&& call,
              Look&& look) {
    prepare(~uint64_t{0} >> 32);
    for (int i = 0; i < 100; ++i) {  // buffers, and the first launches
      call();
      look();
    }
    const std::string text =
        std::string(name) + ", " + std::to_string(rows) + (express ? ", express" : ", bulk");
    print(text.c_str(), latency(parameters_.calls, prepare, call, look));
  }
  static void print(const char* name, Microseconds took) {
    std::printf("%-44s %8.1f %8.1f %8.1f\n", name, took.p50, took.p99, took.most);
  }

  uint64_t present_key() { return scramble(random_() % parameters_.entries + 1); }

  const Parameters parameters_;
  std::unique_ptr<gpu::Table> table_;
  ReplayedTable model_{parameters_.entries, 1};
  std::mt19937_64 random_{5};
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_express_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_express_bench;
  Parameters parameters;
  if (!begin_bench("device_express_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--calls", parameters.calls)})) {
    return EXIT_SUCCESS;
  }
  return Bench(parameters).run();
}
