// gpu::Table beside cuCollections' static_map: 64-bit keys and values, as many bytes an entry in
// each, in one run; every reply of both is checked (cuda/peers/peer_run.cuh).
//
//   peer_table_bench [--entries N] [--rounds N] [--bytes-per-entry B]
//
// static_map has a fixed size: it gets what Isotherm's table takes, or B bytes an entry. It is
// measured with double hashing, 32-bit extents, and lanes a key and slots a bucket of 1 and 2 each;
// which is the fastest differs from row to row. Its puts of several values for one key in a call
// let any win; those of Isotherm take effect in order. tools/compile_peers.sh builds this program.
#include <cuco/static_map.cuh>

#include "cuda/bench_flags.h"
#include "cuda/peers/peer_run.cuh"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::peer_table_bench {
namespace {

using CucoPair = cuco::pair<uint64_t, uint64_t>;

struct Parameters {
  uint64_t entries = 100'000'000;
  int rounds = 9;
  double bytes_per_entry = 0;
};

class Isotherm {
 public:
  explicit Isotherm(uint64_t entries) : table_(options(entries)) {}

  const char* name() const { return "Isotherm"; }
  double bytes() { return static_cast<double>(table_.stats().bytes); }
  void prepare(const uint64_t* /*keys*/, const uint64_t* /*values*/, uint64_t /*rows*/) {}
  void insert(const uint64_t* keys, const uint64_t* values, uint64_t first, uint64_t rows) {
    put(keys, values, first, rows, true);
  }
  void assign(const uint64_t* keys, const uint64_t* values, uint64_t first, uint64_t rows) {
    put(keys, values, first, rows, false);
  }
  void get(const uint64_t* keys, uint64_t* out, uint8_t* found, uint64_t rows) {
    table_.get(keys, out, found, rows, nullptr);
  }
  void finish(uint64_t* /*out*/, uint8_t* /*found*/, uint64_t /*rows*/) {}

 private:
  static gpu::TableOptions options(uint64_t entries) {
    gpu::TableOptions options;
    options.expected_entries = entries;
    return options;
  }
  void put(const uint64_t* keys, const uint64_t* values, uint64_t first, uint64_t rows,
           bool distinct) {
    TableRequests puts;
    puts.rows = rows;
    puts.op = TableOp::put;
    puts.keys = keys + first;
    puts.values = values + first;
    puts.distinct_keys = distinct;
    table_.run(puts, nullptr);
  }

  gpu::Table table_;
};

constexpr uint64_t sentinel = ~uint64_t{0};

static __global__ void make_pairs(const uint64_t* keys, const uint64_t* values, CucoPair* pairs,
                                  uint64_t rows) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    pairs[i] = {keys[i], values[i]};
  }
}

// Replies as Isotherm's: a reply that never came stays what it was.
static __global__ void tell_found(uint64_t* out, uint8_t* found, uint64_t rows) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    if (out[i] == ReplayedTable::untouched) continue;
    found[i] = out[i] != sentinel ? 1 : 0;
    if (out[i] == sentinel) out[i] = ReplayedTable::untouched;
  }
}

template <int lanes, int slots>
class Cuco {
 public:
  Cuco(uint64_t capacity, uint64_t rows)
      : map_(static_cast<uint32_t>(capacity), cuco::empty_key<uint64_t>{sentinel},
             cuco::empty_value<uint64_t>{sentinel}),
        pairs_(device_array<CucoPair>(rows)),
        name_("cuco, " + std::to_string(lanes) + " lanes, " + std::to_string(slots) + " slots") {}
  ~Cuco() { check(cudaFree(pairs_)); }
  Cuco(const Cuco&) = delete;
  Cuco& operator=(const Cuco&) = delete;

  const char* name() const { return name_.c_str(); }
  double bytes() const { return static_cast<double>(map_.capacity()) * sizeof(CucoPair); }
  void prepare(const uint64_t* keys, const uint64_t* values, uint64_t rows) {
    make_pairs<<<2048, 256>>>(keys, values, pairs_, rows);
  }
  void insert(const uint64_t* /*keys*/, const uint64_t* /*values*/, uint64_t first, uint64_t rows) {
    map_.insert_async(pairs_ + first, pairs_ + first + rows);
  }
  void assign(const uint64_t* /*keys*/, const uint64_t* /*values*/, uint64_t first, uint64_t rows) {
    map_.insert_or_assign_async(pairs_ + first, pairs_ + first + rows);
  }
  void get(const uint64_t* keys, uint64_t* out, uint8_t* /*found*/, uint64_t rows) {
    map_.find_async(keys, keys + rows, out);
  }
  void finish(uint64_t* out, uint8_t* found, uint64_t rows) {
    tell_found<<<2048, 256>>>(out, found, rows);
    check(cudaDeviceSynchronize());
  }

 private:
  using Hash = cuco::default_hash_function<uint64_t>;
  using Map =
      cuco::static_map<uint64_t, uint64_t, cuco::extent<uint32_t>, cuda::thread_scope_device,
                       cuda::std::equal_to<uint64_t>, cuco::double_hashing<lanes, Hash>,
                       cuco::cuda_allocator<CucoPair>, cuco::storage<slots>>;

  Map map_;
  CucoPair* pairs_;
  const std::string name_;
};

template <int lanes, int slots>
uint64_t run_cuco(uint64_t capacity, PeerColumns& columns) {
  Cuco<lanes, slots> system(capacity, columns.rows);
  return PeerRun(system, columns).run();
}

int run(const Parameters& parameters) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::printf("peer_table_bench: %s, %llu entries, median of %d\n", properties.name,
              static_cast<unsigned long long>(parameters.entries), parameters.rounds);
  PeerColumns columns(parameters.entries, parameters.rounds);
  double bytes = parameters.bytes_per_entry * static_cast<double>(parameters.entries);
  uint64_t wrong = 0;
  {
    Isotherm system(parameters.entries);
    wrong += PeerRun(system, columns).run();
    if (bytes == 0) bytes = system.bytes();
  }
  const auto capacity = static_cast<uint64_t>(bytes / sizeof(CucoPair));
  if (capacity >= uint64_t{1} << 31 || capacity <= parameters.entries) {
    std::printf("cuco: no room for the entries, or more than 2^31 slots\n");
    return EXIT_FAILURE;
  }
  wrong += run_cuco<1, 1>(capacity, columns);
  wrong += run_cuco<1, 2>(capacity, columns);
  wrong += run_cuco<2, 1>(capacity, columns);
  wrong += run_cuco<2, 2>(capacity, columns);
  return end_with(wrong);
}

}  // namespace
}  // namespace isotherm::bench::peer_table_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace peer_table_bench;
  Parameters parameters;
  if (!begin_bench("peer_table_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--rounds", parameters.rounds),
                    flag("--bytes-per-entry", parameters.bytes_per_entry)})) {
    return EXIT_SUCCESS;
  }
  return run(parameters);
}
