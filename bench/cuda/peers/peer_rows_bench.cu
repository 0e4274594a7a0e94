// gpu::RowTable beside HierarchicalKV: rows of one size by 64-bit key, keys and rows on the GPU,
// 2^20 a call, in one run. Puts store other rows than they find, and every row that is read is
// checked.
//
//   peer_rows_bench [--rows N] [--row-bytes N] [--load-factor F]
//
// Of several rows of one key in a call HierarchicalKV lets any win, so what is put follows from the
// key and the number of the call. It is a cache: a key whose bucket is full evicts another one.
// Keys that it does not have are counted, and no fault. tools/compile_peers.sh --hkv builds this
// program.
#include <merlin_hashtable.cuh>

#include "cuda/bench_flags.h"
#include "cuda/gpu_replay.cuh"
#include "cuda/peers/peer_run.cuh"
#include "cuda/stamped_rows.cuh"
#include "isotherm/gpu/row_table.h"

namespace isotherm::bench::peer_rows_bench {
namespace {

constexpr uint64_t batch = uint64_t{1} << 20;
constexpr int blocks = 2048;
constexpr int rounds = 9;

struct Parameters {
  uint64_t rows = uint64_t{20} << 20;
  uint32_t row_bytes = 512;
  double load_factor = 0.75;
};

class Isotherm {
 public:
  static constexpr const char* name = "Isotherm";
  static constexpr bool evicts = false;

  explicit Isotherm(const Parameters& parameters) : table_(options(parameters)) {}

  void put(const uint64_t* keys, const uint64_t* rows, uint64_t count, bool /*distinct*/) {
    table_.put(keys, rows, count, nullptr);
  }
  void get(const uint64_t* keys, uint64_t* rows, uint8_t* found, uint64_t count) {
    table_.get(keys, rows, found, count, nullptr);
  }

 private:
  static gpu::RowTableOptions options(const Parameters& parameters) {
    gpu::RowTableOptions options;
    options.row_bytes = parameters.row_bytes;
    return options;
  }

  gpu::RowTable table_;
};

class Hierarchical {
 public:
  static constexpr const char* name = "HierarchicalKV";
  static constexpr bool evicts = true;

  explicit Hierarchical(const Parameters& parameters) {
    nv::merlin::HashTableOptions options;
    options.max_capacity =
        static_cast<size_t>(static_cast<double>(parameters.rows) / parameters.load_factor);
    options.init_capacity = options.max_capacity;
    options.max_hbm_for_vectors = 2 * options.max_capacity * parameters.row_bytes;
    options.max_load_factor = 1;
    options.dim = parameters.row_bytes / sizeof(float);
    table_.init(options);
  }

  void put(const uint64_t* keys, const uint64_t* rows, uint64_t count, bool distinct) {
    table_.insert_or_assign(count, keys, reinterpret_cast<const float*>(rows), nullptr, nullptr,
                            distinct);
  }
  void get(const uint64_t* keys, uint64_t* rows, uint8_t* found, uint64_t count) {
    table_.find(count, keys, reinterpret_cast<float*>(rows), reinterpret_cast<bool*>(found),
                nullptr, nullptr);
  }

 private:
  nv::merlin::HashTable<uint64_t, float, uint64_t, nv::merlin::EvictStrategy::kLru> table_;
};

static __global__ void count_absent(const uint8_t* found, uint64_t rows,
                                    unsigned long long* absent) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows; i += stride) {
    if (found[i] == 0) atomicAdd(absent, 1ull);
  }
}

template <class System>
class Run {
 public:
  explicit Run(const Parameters& parameters)
      : parameters_(parameters),
        system_(parameters),
        keys_(device_array<uint64_t>(batch)),
        stamps_(device_array<uint64_t>(batch)),
        stamps_out_(device_array<uint64_t>(batch)),
        found_(device_array<uint8_t>(batch)),
        in_{device_array<uint64_t>(batch * words()), device_array<uint64_t>(batch * words())},
        out_(device_array<uint64_t>(batch * words())),
        absent_(device_array<unsigned long long>(1)),
        model_(parameters.rows) {
    check(cudaMemset(absent_, 0, sizeof *absent_));
  }
  ~Run() {
    for (void* memory :
         {static_cast<void*>(keys_), static_cast<void*>(stamps_), static_cast<void*>(stamps_out_),
          static_cast<void*>(found_), static_cast<void*>(in_[0]), static_cast<void*>(in_[1]),
          static_cast<void*>(out_), static_cast<void*>(absent_)}) {
      check(cudaFree(memory));
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The number of wrong replies.
  uint64_t run() {
    replay_.fill(keys_, stamps_, batch, [&](const TableRequests& puts) {
      write_rows<<<blocks, 256>>>(keys_, stamps_, in_[0], puts.rows, words());
      system_.put(keys_, in_[0], puts.rows, true);
    });
    read_all();
    for (const bool zipf : {false, true}) {
      const char* keys = zipf ? "Zipf .99" : "uniform";
      draw_keys<<<blocks, 256>>>(keys_, batch, parameters_.rows, zipf, false, 3);
      forget_replies(stamps_out_, found_, batch);
      report("GET", keys, [&](int) { system_.get(keys_, out_, found_, batch); });
      check_gets(batch);
      put(keys, zipf);
      read_all();
    }
    unsigned long long absent = 0;
    check(cudaMemcpy(&absent, absent_, sizeof absent, cudaMemcpyDeviceToHost));
    if (System::evicts) {
      // The model has every key, so each of these is among its wrong replies.
      wrong_ -= absent;
      std::printf("%-16s keys that it did not have when they were read: %llu\n", System::name,
                  absent);
    }
    std::printf("%-16s wrong replies: %llu\n", System::name,
                static_cast<unsigned long long>(wrong_));
    return wrong_;
  }

 private:
  uint64_t words() const { return parameters_.row_bytes / sizeof(uint64_t); }

  // Calls with two columns of rows in turn; what the last one stored goes to the model.
  void put(const char* keys, bool zipf) {
    draw_keys<<<blocks, 256>>>(keys_, batch, parameters_.rows, zipf, false, 4);
    const auto draw = [&](uint64_t turn) {
      draw_call_values<<<blocks, 256>>>(keys_, stamps_, batch, batch, 2 * puts_ + turn);
    };
    ++puts_;
    for (uint64_t turn = 0; turn < 2; ++turn) {
      draw(turn);
      write_rows<<<blocks, 256>>>(keys_, stamps_, in_[turn], batch, words());
    }
    check(cudaDeviceSynchronize());
    report("PUT", keys, [&](int round) { system_.put(keys_, in_[round % 2], batch, false); });
    draw(rounds % 2);
    TableRequests puts;
    puts.rows = batch;
    puts.op = TableOp::put;
    puts.keys = keys_;
    puts.values = stamps_;
    wrong_ += replay_.replay(puts);
  }

  void read_all() {
    wrong_ += replay_.read_all(
        keys_, stamps_, stamps_out_, found_, batch, [&](const TableRequests& gets) {
          system_.get(keys_, out_, found_, gets.rows);
          read_rows<<<blocks, 256>>>(keys_, out_, stamps_out_, found_, gets.rows, words());
          count_absent<<<blocks, 256>>>(found_, gets.rows, absent_);
        });
  }
  void check_gets(uint64_t rows) {
    count_absent<<<blocks, 256>>>(found_, rows, absent_);
    wrong_ += replay_rows(replay_, keys_, out_, stamps_out_, found_, rows, words());
  }

  template <class Call>
  void report(const char* name, const char* keys, Call&& call) {
    const double took = median_seconds(rounds, call);
    std::printf("%-16s %s %-9s %6.2f TB/s read and written, %7.1f M rows/s\n", System::name, name,
                keys, 2.0 * batch * parameters_.row_bytes / took / 1e12, batch / took / 1e6);
    std::fflush(stdout);
  }

  const Parameters parameters_;
  System system_;
  uint64_t* keys_;
  uint64_t* stamps_;
  uint64_t* stamps_out_;
  uint8_t* found_;
  uint64_t* in_[2];
  uint64_t* out_;
  unsigned long long* absent_;
  ReplayedTable model_;
  GpuReplay replay_{model_};
  uint64_t puts_ = 1;
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::peer_rows_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace peer_rows_bench;
  Parameters parameters;
  if (!begin_bench("peer_rows_bench", argc, argv,
                   {flag("--rows", parameters.rows), flag("--row-bytes", parameters.row_bytes),
                    flag("--load-factor", parameters.load_factor)})) {
    return EXIT_SUCCESS;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::printf("peer_rows_bench: %s, %llu rows of %u bytes, 2^20 a call, median of %d\n",
              properties.name, static_cast<unsigned long long>(parameters.rows),
              parameters.row_bytes, rounds);
  uint64_t wrong = Run<Isotherm>(parameters).run();
  wrong += Run<Hierarchical>(parameters).run();
  return end_with(wrong);
}
