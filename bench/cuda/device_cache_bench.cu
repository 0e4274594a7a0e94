// gpu::Cache: lookups and writes by both indexes of a fixed size, beside the line index, with keys
// and replies on the GPU, at several loads, 2^24 rows a call.
//
// Every reply is checked: a key that is found has its value, an absent one is not found; a key that
// is missing is one that was evicted, and no more are than the cache says.
//
//   device_cache_bench [--entries N] [--rounds N]      entries: for which there is room
#include <memory>
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_timer.cuh"
#include "cuda/replayed_table.h"
#include "isotherm/gpu/cache.h"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_cache_bench {
namespace {

constexpr uint64_t rows = uint64_t{1} << 24;

struct Parameters {
  uint64_t entries = 100'000'000;
  int rounds = 9;
};

struct Counts {
  unsigned long long wrong = 0;
  unsigned long long found = 0;
};

// `stored`: of gets that compare no keys; those of other keys count as not found.
__global__ void count_replies(const uint64_t* keys, const uint64_t* stored, const uint64_t* values,
                              const uint8_t* found, uint64_t count, bool absent, Counts* counts) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const bool is_found = found[i] == 1 && (stored == nullptr || stored[i] == keys[i]);
    const bool is_right = found[i] <= 1 && (!is_found || (!absent && values[i] == keys[i] * 3));
    if (!is_right) atomicAdd(&counts->wrong, 1ull);
    if (is_found) atomicAdd(&counts->found, 1ull);
  }
}

__global__ void triple(const uint64_t* keys, uint64_t* values) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    values[i] = keys[i] * 3;
  }
}

class Bench {
 public:
  explicit Bench(const Parameters& parameters)
      : parameters_(parameters),
        keys_(device_array<uint64_t>(rows)),
        values_(device_array<uint64_t>(rows)),
        out_(device_array<uint64_t>(rows)),
        stored_(device_array<uint64_t>(rows)),
        found_(device_array<uint8_t>(rows)),
        counts_(device_array<Counts>(1)) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    blocks_ = static_cast<uint32_t>(properties.multiProcessorCount) * 16;
    std::printf("device_cache_bench: %s, room for %llu entries, 2^24 rows a call, median of %d\n",
                properties.name, static_cast<unsigned long long>(parameters.entries),
                parameters.rounds);
  }

  int run() {
    std::printf("G/s          load  new keys  hits  misses  Zipf  stored  present  bytes  kept\n");
    for (const double load : {0.5, 0.75, 0.9, 1.0}) {
      const auto entries = static_cast<uint64_t>(static_cast<double>(parameters_.entries) * load);
      gpu::Table line;
      measure("line", line, load, entries);
    }
    for (const FixedIndexKind kind : {FixedIndexKind::cuckoo, FixedIndexKind::set}) {
      for (const double load : {0.5, 0.75, 0.9, 1.0}) {
        const auto entries = static_cast<uint64_t>(static_cast<double>(parameters_.entries) * load);
        gpu::Cache cache(options(kind, gpu::CacheOptions().lanes));
        measure(kind == FixedIndexKind::cuckoo ? "cuckoo" : "set", cache, load, entries);
        if (load == 1.0) evict(cache, entries);
      }
    }
    for (const double load : {0.5, 0.9}) {
      for (const uint32_t lanes : {1, 2, 4, 8}) measure_lanes(lanes, load);
    }
    return end_with(wrong_);
  }

 private:
  gpu::CacheOptions options(FixedIndexKind kind, uint32_t lanes) const {
    gpu::CacheOptions options;
    options.index = kind;
    options.entries = parameters_.entries;
    options.lanes = lanes;
    options.hash_seed = 5;
    return options;
  }

  template <class Table>
  void measure(const char* name, Table& table, double load, uint64_t entries) {
    const double added = fill(table, 0, entries);
    const gpu::TableStats stats = table.stats();
    const double hits = gets(table, entries, false, false);
    const double misses = gets(table, entries, false, true);
    const double zipf = gets(table, entries, true, false);
    const double stored = get_stored(table, entries);
    draw(entries, false, false);
    triple<<<blocks_, 256>>>(keys_, values_);
    const double present = rate([&](int) { table.put(keys_, values_, rows, nullptr); });
    const double known = static_cast<double>(stats.entries);
    std::printf("%-12s %.2f %9.2f %5.2f %7.2f %5.2f %7.2f %8.2f %6.1f %5.3f\n", name, load, added,
                hits, misses, zipf, stored, present, static_cast<double>(stats.bytes) / known,
                known / static_cast<double>(entries));
    std::fflush(stdout);
    if (stats.entries + stats.evictions != entries) ++wrong_;
  }

  void measure_lanes(uint32_t lanes, double load) {
    gpu::Cache cache(options(FixedIndexKind::cuckoo, lanes));
    const auto entries = static_cast<uint64_t>(static_cast<double>(parameters_.entries) * load);
    fill(cache, 0, entries);
    const double hits = gets(cache, entries, false, false);
    const double misses = gets(cache, entries, false, true);
    std::printf("cuckoo, units of %u lanes, load %.2f: hits %.2f, misses %.2f G/s\n", lanes, load,
                hits, misses);
  }

  // New keys that each evict one.
  void evict(gpu::Cache& cache, uint64_t entries) {
    const uint64_t before = cache.stats().evictions;
    const double added = fill(cache, entries, rows * 4);
    const gpu::TableStats stats = cache.stats();
    std::printf("             full, new keys %.2f G/s: %.3f of them evicted one, %.2f moves each\n",
                added,
                static_cast<double>(stats.evictions - before) / static_cast<double>(rows * 4),
                static_cast<double>(stats.displaced) / static_cast<double>(entries + rows * 4));
  }

  // Puts the keys of ranks from `first` on; G/s of the puts alone, in work space that is there.
  template <class Table>
  double fill(Table& table, uint64_t first, uint64_t entries) {
    erase_absent(table);
    double took = 0;
    for (uint64_t at = 0; at < entries; at += rows) {
      const uint64_t count = std::min(rows, entries - at);
      fresh_keys<<<blocks_, 256>>>(keys_, values_, count, first + at);
      took += median_seconds(0, [&](int) {
        TableRequests puts;
        puts.rows = count;
        puts.op = TableOp::put;
        puts.keys = keys_;
        puts.values = values_;
        puts.distinct_keys = true;
        table.run(puts, nullptr);
      });
    }
    return static_cast<double>(entries) / took / 1e9;
  }

  template <class Table>
  void erase_absent(Table& table) {
    fresh_keys<<<blocks_, 256>>>(keys_, values_, rows, parameters_.entries * 8);
    TableRequests erases;
    erases.rows = rows;
    erases.op = TableOp::erase;
    erases.keys = keys_;
    erases.distinct_keys = true;
    table.run(erases, nullptr);
    check(cudaDeviceSynchronize());
  }

  template <class Table>
  double gets(Table& table, uint64_t entries, bool zipf, bool absent) {
    draw(entries, zipf, absent);
    const double result = rate([&](int) { table.get(keys_, out_, found_, rows, nullptr); });
    count(nullptr, absent);
    return result;
  }
  double get_stored(gpu::Table& /*line*/, uint64_t /*entries*/) { return 0; }
  double get_stored(gpu::Cache& cache, uint64_t entries) {
    draw(entries, false, false);
    const double result =
        rate([&](int) { cache.get_stored(keys_, stored_, out_, found_, rows, nullptr); });
    count(stored_, false);
    return result;
  }

  template <class Work>
  double rate(Work&& work) {
    return static_cast<double>(rows) / median_seconds(parameters_.rounds, work) / 1e9;
  }
  void draw(uint64_t entries, bool zipf, bool absent) {
    draw_keys<<<blocks_, 256>>>(keys_, rows, entries, zipf, absent, ++seed_);
    check(cudaDeviceSynchronize());
  }
  void count(const uint64_t* stored, bool absent) {
    check(cudaMemset(counts_, 0, sizeof *counts_));
    count_replies<<<blocks_, 256>>>(keys_, stored, out_, found_, rows, absent, counts_);
    Counts counts;
    check(cudaMemcpy(&counts, counts_, sizeof counts, cudaMemcpyDeviceToHost));
    wrong_ += counts.wrong;
    // Few are evicted while there is room.
    if (absent ? counts.found != 0 : counts.found < rows * 8 / 10) ++wrong_;
  }

  const Parameters parameters_;
  uint64_t* keys_;
  uint64_t* values_;
  uint64_t* out_;
  uint64_t* stored_;
  uint8_t* found_;
  Counts* counts_;
  uint32_t blocks_ = 0;
  uint64_t seed_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_cache_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_cache_bench;
  Parameters parameters;
  if (!begin_bench("device_cache_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--rounds", parameters.rounds)})) {
    return EXIT_SUCCESS;
  }
  return Bench(parameters).run();
}
