// gpu::Table: lookups and writes of 64-bit keys and values with keys and results on the GPU, each
// beside what the card can do at most, measured in the same run. The last rows show what puts cost
// where the guess whether their keys are new is made for the table, right or wrong.
//
// Every reply is checked. Calls with writes store values that are drawn anew, the mixed ones erase,
// too; behind each row a model on the host replays its calls, and all entries are read.
//
//   device_table_bench [--entries N] [--rounds N]
#include <algorithm>
#include <functional>
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_limits.cuh"
#include "cuda/gpu_replay.cuh"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/table/fixed_device_table.h"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_table_bench {
namespace {

struct Parameters {
  uint64_t entries = 100'000'000;
  int rounds = 9;
};

constexpr uint64_t largest = uint64_t{1} << 26;
class Bench {
 public:
  explicit Bench(const Parameters& parameters)
      : parameters_(parameters),
        rows_(std::max(largest, calls() << 24)),
        keys_(device_array<uint64_t>(rows_)),
        values_(device_array<uint64_t>(rows_)),
        out_(device_array<uint64_t>(rows_)),
        found_(device_array<uint8_t>(rows_)),
        ops_(device_array<TableOp>(rows_)),
        wrong_(device_array<unsigned long long>(1)) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    blocks_ = static_cast<uint32_t>(properties.multiProcessorCount) * 16;
    int driver = 0;
    check(cudaDriverGetVersion(&driver));
    std::printf("device_table_bench: %s, CUDA %d.%d, %llu entries, median of %d\n", properties.name,
                driver / 1000, driver % 1000 / 10,
                static_cast<unsigned long long>(parameters.entries), parameters.rounds);
    check(cudaMemset(wrong_, 0, sizeof *wrong_));
  }

  int run() {
    limits();
    fill();
    gets();
    puts();
    mixed();
    pinned();
    table_.reset();
    for (const TryPuts when : {TryPuts::never, TryPuts::always}) guesses(when);
    unsigned long long wrong = 0;
    check(cudaMemcpy(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost));
    return end_with(wrong + replayed_wrong_);
  }

 private:
  // Of a row: those that are timed, and one before them. Each has rows of its own in the columns.
  uint64_t calls() const { return static_cast<uint64_t>(parameters_.rounds) + 1; }

  void limits() {
    // At least what the copies take.
    const uint64_t bytes = std::max(parameters_.entries * 27, uint64_t{1} << 28);
    auto* memory = device_array<char>(bytes);
    check(cudaMemset(memory, 0, bytes));
    draw(largest, false, false, 1);
    limits_ = measure_limits(memory, bytes, keys_, out_, largest, blocks_);
    check(cudaFree(memory));
    std::printf(
        "limits: random reads of 64 B %.1f, of 128 B %.1f, 128-bit swaps %.1f G/s; "
        "copies to the device %.1f, to the host %.1f GB/s\n",
        limits_.reads_64 / 1e9, limits_.reads_128 / 1e9, limits_.swaps / 1e9,
        limits_.to_device / 1e9, limits_.to_host / 1e9);
  }

  void fill() {
    for (const int shift : {20, 24}) {
      fill(shift, false, false);
      fill(shift, false, true);
      fill(shift, true, true);
      fill(shift, true, false);
    }
    const gpu::TableStats stats = table_->stats();
    std::printf(
        "%llu entries, %.2f bytes an entry, overflow lines %.1f%% of lines, work space "
        "%llu MiB\n",
        static_cast<unsigned long long>(stats.entries),
        static_cast<double>(stats.bytes) / static_cast<double>(stats.entries),
        static_cast<double>(stats.overflow_lines) * 100 / static_cast<double>(stats.segments << 16),
        static_cast<unsigned long long>(stats.workspace >> 20));
  }

  void fill(int shift, bool reserved, bool distinct) {
    gpu::TableOptions options;
    options.expected_entries = reserved ? parameters_.entries : 0;
    table_.reset();
    table_ = std::make_unique<gpu::Table>(options);
    const double took = fill_table(*table_, uint64_t{1} << shift, distinct);
    std::printf("PUT of new keys, 2^%d a call, %s, %s: %.2f G/s\n", shift,
                reserved ? "growth before" : "growth included",
                distinct ? "distinct by promise" : "duplicates handled",
                static_cast<double>(parameters_.entries) / took / 1e9);
  }

  // Seconds of the puts alone.
  template <class Table>
  double fill_table(Table& table, uint64_t rows, bool distinct) {
    double took = 0;
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (uint64_t first = 0; first < parameters_.entries; first += largest) {
      const uint64_t filled = std::min(largest, parameters_.entries - first);
      fresh_keys<<<blocks_, 256>>>(keys_, values_, filled, first);
      check(cudaEventRecord(begin));
      for (uint64_t at = 0; at < filled; at += rows) {
        TableRequests requests;
        requests.rows = std::min(rows, filled - at);
        requests.op = TableOp::put;
        requests.keys = keys_ + at;
        requests.values = values_ + at;
        requests.distinct_keys = distinct;
        table.run(requests, nullptr);
      }
      check(cudaEventRecord(end));
      check(cudaEventSynchronize(end));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end));
      took += milliseconds / 1e3;
    }
    return took;
  }

  void gets() {
    for (const int shift : {26, 20, 16}) {
      get("hits", shift, false, false);
      get("misses", shift, false, true);
      get("Zipf .99", shift, true, false);
    }
  }
  void get(const char* name, int shift, bool zipf, bool absent) {
    const uint64_t rows = uint64_t{1} << shift;
    draw(largest, zipf, absent, 5);
    forget_replies(out_, found_, largest);
    const double took = median_seconds(parameters_.rounds, [&](int round) {
      const uint64_t first = rows * static_cast<uint64_t>(round) % largest;
      table_->get(keys_ + first, out_ + first, found_ + first, rows, nullptr);
    });
    const uint64_t used = std::min(largest, rows * static_cast<uint64_t>(parameters_.rounds));
    count_wrong<<<blocks_, 256>>>(keys_, out_, found_, used, !absent, wrong_);
    report("GET " + std::string(name), shift, took, limits_.reads_128);
  }

  void puts() {
    model_.fill();
    for (const int shift : {16, 20, 22, 24}) {
      put("uniform", shift, false);
      put("Zipf .99", shift, true);
    }
  }
  void put(const char* name, int shift, bool zipf) {
    put_present(*table_, "PUT of present keys, " + std::string(name), shift, zipf);
  }
  template <class Table>
  void put_present(Table& table, const std::string& name, int shift, bool zipf) {
    const uint64_t rows = uint64_t{1} << shift;
    TableRequests all;
    all.rows = rows * calls();
    all.op = TableOp::put;
    all.keys = keys_;
    all.values = values_;
    draw(all.rows, zipf, false, 7);
    draw_writes<<<blocks_, 256>>>(nullptr, values_, all.rows, 1, ++seed_);
    measure(table, all, rows, name, shift, limits_.swaps);
  }

  void mixed() {
    for (const bool zipf : {true, false}) {
      for (const int shift : {16, 20, 22, 24}) {
        restore();
        const uint64_t rows = uint64_t{1} << shift;
        TableRequests all;
        all.rows = rows * calls();
        all.ops = ops_;
        all.keys = keys_;
        all.values = values_;
        all.values_out = out_;
        all.found = found_;
        draw(all.rows, zipf, false, 9);
        draw_writes<<<blocks_, 256>>>(ops_, values_, all.rows, 20, ++seed_);
        forget_replies(out_, found_, all.rows);
        measure(*table_, all, rows, zipf ? "95/5 in order, Zipf .99" : "95/5 in order, uniform",
                shift, limits_.reads_128);
      }
    }
    restore();
  }

  // Calls of `rows` rows each, which are then replayed.
  template <class Table>
  void measure(Table& table, const TableRequests& all, uint64_t rows, const std::string& name,
               int shift, double limit) {
    const double took = median_seconds(parameters_.rounds, [&](int round) {
      table.run(rows_of(all, rows * static_cast<uint64_t>(round), rows), nullptr);
    });
    replayed_wrong_ += replay_.replay(all);
    replayed_wrong_ +=
        replay_.read_all(keys_, values_, out_, found_, rows_,
                         [&](const TableRequests& gets) { table.run(gets, nullptr); });
    if (table.stats().entries != model_.entries()) ++replayed_wrong_;
    report(name, shift, took, limit);
  }

  // Every entry has its first value again.
  void restore() {
    replay_.fill(keys_, values_, rows_,
                 [&](const TableRequests& puts) { table_->run(puts, nullptr); });
  }

  // Keys and results in pinned host memory, in stream order and awaited.
  void pinned() {
    constexpr uint64_t rows = uint64_t{1} << 24;
    uint64_t* keys = nullptr;
    uint64_t* values = nullptr;
    uint8_t* found = nullptr;
    check(cudaMallocHost(&keys, rows * sizeof *keys));
    check(cudaMallocHost(&values, rows * sizeof *values));
    check(cudaMallocHost(&found, rows));
    const double bytes = limits_.to_host / 8;  // a value a row
    const auto measure = [&](const std::string& name, int shift, bool awaited) {
      const uint64_t part = uint64_t{1} << shift;
      std::fill_n(values, rows, 7);
      std::fill_n(found, rows, uint8_t{7});
      const double took = median_seconds(parameters_.rounds, [&](int round) {
        const uint64_t first = part * static_cast<uint64_t>(round) % rows;
        if (awaited) {
          table_->get({keys + first, part}, {values + first, part}, {found + first, part});
        } else {
          table_->get_pinned(keys + first, values + first, found + first, part, nullptr);
        }
      });
      report(name + (awaited ? ", awaited" : ", in stream order"), shift, took, bytes);
    };
    // One miss in so many rows; 0: none, 1: all.
    for (const uint64_t miss_in : {1, 2, 1000, 0}) {
      const std::string name = "GET" +
                               (miss_in == 1   ? std::string(" misses")
                                : miss_in != 0 ? ", a miss in " + std::to_string(miss_in)
                                               : std::string(" hits")) +
                               ", pinned host memory";
      const auto misses = [&](uint64_t i) { return miss_in != 0 && i % miss_in == 0; };
      draw(rows, false, false, 11);
      check(cudaMemcpy(keys, keys_, rows * sizeof *keys, cudaMemcpyDeviceToHost));
      draw(rows, false, true, 12);
      check(cudaMemcpy(values, keys_, rows * sizeof *keys, cudaMemcpyDeviceToHost));
      for (uint64_t i = 0; i < rows; ++i) {
        if (misses(i)) keys[i] = values[i];
      }
      for (const bool awaited : {false, true}) {
        for (const int shift : {16, 20, 22, 24}) {
          measure(name, shift, awaited);
          const uint64_t used = std::min(rows, calls() << shift);
          for (uint64_t i = 0; i < used; ++i) {
            const bool right = misses(i) ? found[i] == 0 && values[i] == 7
                                         : found[i] == 1 && values[i] == keys[i] * 3;
            replayed_wrong_ += right ? 0 : 1;
          }
        }
      }
    }
    check(cudaFreeHost(keys));
    check(cudaFreeHost(values));
    check(cudaFreeHost(found));
  }

  // Puts of new keys, then of present ones.
  void guesses(TryPuts when) {
    const std::string guess = when == TryPuts::never ? "taken as present" : "taken as new";
    CudaDevice device(0);
    for (const int shift : {20, 21, 24}) {
      FixedDeviceOptions options;
      options.tries.when = when;
      FixedDeviceTable<CudaDevice> table(device, options);
      table.reserve(parameters_.entries);
      const uint64_t rows = uint64_t{1} << shift;
      const double took = fill_table(table, rows, false);
      report("PUT of new keys, " + guess, shift,
             took * static_cast<double>(rows) / static_cast<double>(parameters_.entries),
             limits_.swaps);
      model_.fill();
      put_present(table, "PUT of present keys, " + guess, shift, false);
    }
  }

  void draw(uint64_t rows, bool zipf, bool absent, uint64_t seed) {
    draw_keys<<<blocks_, 256>>>(keys_, rows, parameters_.entries, zipf, absent, seed);
    check(cudaDeviceSynchronize());
  }
  void report(const std::string& name, int shift, double took, double limit) const {
    const double rate = static_cast<double>(uint64_t{1} << shift) / took;
    std::printf("%-32s 2^%d  %7.2f G/s  %8.1f us  %.2f of the limit\n", name.c_str(), shift,
                rate / 1e9, took * 1e6, rate / limit);
  }

  const Parameters parameters_;
  const uint64_t rows_;  // of each column
  uint64_t* keys_;
  uint64_t* values_;
  uint64_t* out_;
  uint8_t* found_;
  TableOp* ops_;
  unsigned long long* wrong_;
  uint32_t blocks_ = 0;
  GpuLimits limits_{};
  std::unique_ptr<gpu::Table> table_;
  ReplayedTable model_{parameters_.entries};
  GpuReplay replay_{model_};
  uint64_t seed_ = 0;  // of what is written
  uint64_t replayed_wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_table_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_table_bench;
  Parameters parameters;
  if (!begin_bench("device_table_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--rounds", parameters.rounds)})) {
    return EXIT_SUCCESS;
  }
  return Bench(parameters).run();
}
