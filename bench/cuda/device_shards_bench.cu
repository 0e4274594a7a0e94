// A gpu::Table on two GPUs beside one on one of them, with as many entries in all
// and as many rows a GPU and call: how much of one GPU's speed each of two has.
//
// Calls with writes come again and again with two columns of values in turn, so each puts other
// values than it finds; the last ones are replayed on the host, slice by slice, and all entries are
// read.
//
//   device_shards_bench [--entries N] [--rows N] [--rounds N]
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_replay.cuh"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_shards_bench {
namespace {

struct Parameters {
  uint64_t entries = 100'000'000;
  uint64_t rows = uint64_t{1} << 24;  // of a slice
  int rounds = 9;
};

constexpr int calls_per_round = 4;
constexpr uint32_t blocks = 132 * 16;

// The median of seconds a call: rounds of several calls, which `wait` waits for.
template <class Call, class Wait>
double seconds_per_call(int rounds, Call&& call, Wait&& wait) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls_per_round; ++i) call();
    wait();
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (round > 0) times.push_back(took.count() / calls_per_round);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

// A GPU with the columns of its slice.
class Side {
 public:
  Side(int gpu, uint64_t rows) : gpu_(gpu), rows_(rows) {
    enter();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    keys_ = device_array<uint64_t>(rows);
    for (uint64_t*& values : values_) values = device_array<uint64_t>(rows);
    out_ = device_array<uint64_t>(rows);
    found_ = device_array<uint8_t>(rows);
    ops_ = device_array<TableOp>(rows);
  }

  cudaStream_t stream() const { return stream_; }
  const uint64_t* keys() const { return keys_; }
  void enter() const { check(cudaSetDevice(gpu_)); }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

  // New entries, from rank `first` on.
  TableRequests fresh(uint64_t first, uint64_t rows) {
    enter();
    fresh_keys<<<blocks, 256>>>(keys_, values_[0], rows, first);
    check(cudaDeviceSynchronize());
    TableRequests requests = puts(0);
    requests.rows = rows;
    requests.distinct_keys = true;
    return requests;
  }
  void draw(uint64_t entries, bool zipf, uint64_t seed) {
    enter();
    draw_keys<<<blocks, 256>>>(keys_, rows_, entries, zipf, false,
                               seed + static_cast<uint64_t>(gpu_));
    // The operations are those that are drawn last.
    for (uint64_t i = 0; i < 2; ++i) {
      const uint64_t of_its_own = 4 * seed + 2 * static_cast<uint64_t>(gpu_) + i;
      draw_writes<<<blocks, 256>>>(ops_, values_[i], rows_, 20, of_its_own);
    }
    check(cudaDeviceSynchronize());
  }

  // Of calls in turn.
  TableRequests gets(uint64_t /*turn*/ = 0) const {
    TableRequests requests;
    requests.rows = rows_;
    requests.keys = keys_;
    requests.values_out = out_;
    requests.found = found_;
    return requests;
  }
  TableRequests puts(uint64_t turn) const {
    TableRequests requests;
    requests.rows = rows_;
    requests.op = TableOp::put;
    requests.keys = keys_;
    requests.values = values_[turn % 2];
    return requests;
  }
  TableRequests mixed(uint64_t turn) const {
    TableRequests requests = gets();
    requests.ops = ops_;
    requests.values = values_[turn % 2];
    return requests;
  }

  // Replies forgotten, so that the next ones are not taken from an earlier call.
  void forget() {
    enter();
    forget_replies(out_, found_, rows_);
  }
  // Gets of entries from rank `first` on.
  TableRequests reads(uint64_t first, uint64_t rows) {
    fresh(first, rows);
    forget();
    TableRequests requests = gets();
    requests.rows = rows;
    return requests;
  }

 private:
  const int gpu_;
  const uint64_t rows_;
  cudaStream_t stream_ = nullptr;
  uint64_t* keys_;
  uint64_t* values_[2];
  uint64_t* out_;
  uint8_t* found_;
  TableOp* ops_;
};

// Columns of gets in pinned host memory.
struct PinnedColumns {
  explicit PinnedColumns(uint64_t its_rows) : rows(its_rows) {
    check(cudaMallocHost(&keys, rows * sizeof *keys));
    check(cudaMallocHost(&values, rows * sizeof *values));
    check(cudaMallocHost(&found, rows));
  }
  ~PinnedColumns() {
    check(cudaFreeHost(keys));
    check(cudaFreeHost(values));
    check(cudaFreeHost(found));
  }
  unsigned long long wrong() const {
    unsigned long long wrong = 0;
    for (uint64_t i = 0; i < rows; ++i) wrong += found[i] != 1 || values[i] != keys[i] * 3;
    return wrong;
  }

  const uint64_t rows;
  uint64_t* keys = nullptr;
  uint64_t* values = nullptr;
  uint8_t* found = nullptr;
};

// A table and its GPUs.
struct Subject {
  std::function<void(std::span<const TableRequests>)> run;
  std::function<void(PinnedColumns&)> get_pinned;
  std::function<gpu::TableStats()> stats;
  std::span<Side> sides;
};

class Bench {
 public:
  explicit Bench(const Parameters& parameters) : parameters_(parameters) {
    for (int gpu = 0; gpu < 2; ++gpu) sides_.emplace_back(gpu, parameters.rows);
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    std::printf(
        "device_shards_bench: 2 of %s, %llu entries, %llu rows a GPU and call, median of %d\n",
        properties.name, static_cast<unsigned long long>(parameters.entries),
        static_cast<unsigned long long>(parameters.rows), parameters.rounds);
  }

  int run() {
    const std::vector<Rate> one = measure_one();
    const std::vector<Rate> two = measure_two();
    for (size_t i = 0; i < one.size(); ++i) {
      std::printf("%-28s  one GPU %7.2f G/s  two %7.2f G/s  each %.2f of one\n", one[i].name,
                  one[i].per_second / 1e9, two[i].per_second / 1e9,
                  two[i].per_second / one[i].per_second / 2);
    }
    return end_with(wrong_);
  }

 private:
  struct Rate {
    const char* name;
    double per_second;
  };

  std::vector<Rate> measure_one() {
    sides_[0].enter();
    gpu::Table table;
    Subject subject;
    subject.sides = {sides_.data(), 1};
    subject.run = [&](std::span<const TableRequests> slices) {
      sides_[0].enter();
      table.run(slices[0], sides_[0].stream());
    };
    subject.get_pinned = [&](PinnedColumns& columns) {
      sides_[0].enter();
      table.get_pinned(columns.keys, columns.values, columns.found, columns.rows,
                       sides_[0].stream());
      sides_[0].wait();
    };
    subject.stats = [&] { return table.stats(); };
    return measure(subject);
  }

  std::vector<Rate> measure_two() {
    gpu::TableOptions options;
    options.devices = {0, 1};
    gpu::Table table(options);
    std::printf("peer access: %s\n", table.peer_access() ? "yes" : "no");
    peer_copies();
    const std::vector<cudaStream_t> streams = {sides_[0].stream(), sides_[1].stream()};
    Subject subject;
    subject.sides = sides_;
    subject.run = [&](std::span<const TableRequests> slices) { table.run(slices, streams); };
    subject.get_pinned = [&](PinnedColumns& columns) {
      table.get_pinned({columns.keys, columns.rows}, {columns.values, columns.rows},
                       {columns.found, columns.rows});
    };
    subject.stats = [&] { return table.stats(); };
    return measure(subject);
  }

  std::vector<Rate> measure(Subject& subject) {
    fill(subject);
    model_.fill();
    const gpu::TableStats stats = subject.stats();
    std::printf("%zu GPU(s): %llu entries, %.2f bytes an entry, work space %llu MiB in all\n",
                subject.sides.size(), static_cast<unsigned long long>(stats.entries),
                static_cast<double>(stats.bytes) / static_cast<double>(stats.entries),
                static_cast<unsigned long long>(stats.workspace >> 20));
    if (stats.entries != parameters_.entries) ++wrong_;
    std::vector<Rate> rates;
    rates.push_back({"GET hits, slices on GPUs", slices(subject, false, &Side::gets)});
    rates.push_back({"GET hits, pinned host memory", pinned(subject)});
    rates.push_back({"PUT of present keys", slices(subject, false, &Side::puts)});
    rates.push_back({"95/5 in order, Zipf .99", slices(subject, true, &Side::mixed)});
    read_all(subject);
    if (subject.stats().entries != model_.entries()) ++wrong_;
    return rates;
  }

  void fill(Subject& subject) {
    const uint64_t each = parameters_.rows;
    for (uint64_t first = 0; first < parameters_.entries;) {
      std::vector<TableRequests> slices;
      for (Side& side : subject.sides) {
        const uint64_t rows = std::min(each, parameters_.entries - first);
        slices.push_back(side.fresh(first, rows));
        first += rows;
      }
      subject.run(slices);
      wait(subject);
    }
  }

  // Requests a second.
  double slices(Subject& subject, bool zipf, TableRequests (Side::*kind)(uint64_t) const) {
    std::vector<TableRequests> in_turn[2];
    for (Side& side : subject.sides) {
      side.draw(parameters_.entries, zipf, ++seed_ * 100);
      side.forget();
      for (uint64_t turn = 0; turn < 2; ++turn) in_turn[turn].push_back((side.*kind)(turn));
    }
    uint64_t turns = 0;
    const double took = seconds_per_call(
        parameters_.rounds, [&] { subject.run(in_turn[turns++ % 2]); }, [&] { wait(subject); });
    // Once more, with columns that hold nothing: rows that find no key leave what is there.
    for (Side& side : subject.sides) side.forget();
    subject.run(in_turn[turns++ % 2]);
    wait(subject);
    // What a turn finds depends on the one before it alone.
    for (TableRequests before : in_turn[turns % 2]) {
      before.values_out = nullptr;
      before.found = nullptr;
      wrong_ += replay_.replay(before);
    }
    for (const TableRequests& last : in_turn[(turns + 1) % 2]) wrong_ += replay_.replay(last);
    return static_cast<double>(parameters_.rows * subject.sides.size()) / took;
  }

  void read_all(Subject& subject) {
    for (uint64_t first = 0; first < parameters_.entries;) {
      std::vector<TableRequests> slices;
      for (Side& side : subject.sides) {
        const uint64_t rows = std::min(parameters_.rows, parameters_.entries - first);
        slices.push_back(side.reads(first, rows));
        first += rows;
      }
      subject.run(slices);
      wait(subject);
      for (const TableRequests& gets : slices) wrong_ += replay_.replay(gets);
    }
  }

  double pinned(Subject& subject) {
    PinnedColumns columns(parameters_.rows * subject.sides.size());
    uint64_t* keys = columns.keys;
    for (Side& side : subject.sides) {
      side.draw(parameters_.entries, false, ++seed_ * 100);
      check(cudaMemcpy(keys, side.keys(), parameters_.rows * sizeof *keys, cudaMemcpyDeviceToHost));
      keys += parameters_.rows;
    }
    std::fill_n(columns.found, columns.rows, uint8_t{7});
    const double took = seconds_per_call(
        parameters_.rounds, [&] { subject.get_pinned(columns); }, [] {});
    wrong_ += columns.wrong();
    return static_cast<double>(columns.rows) / took;
  }

  static void wait(const Subject& subject) {
    for (const Side& side : subject.sides) side.wait();
  }

  // One way, and both ways at a time.
  void peer_copies() {
    constexpr uint64_t bytes = uint64_t{256} << 20;
    void* memory[2];
    void* from[2];
    for (int gpu = 0; gpu < 2; ++gpu) {
      sides_[gpu].enter();
      memory[gpu] = device_array<char>(bytes);
      from[gpu] = device_array<char>(bytes);
    }
    const auto copy = [&](int gpu) {
      check(cudaMemcpyPeerAsync(memory[1 - gpu], 1 - gpu, from[gpu], gpu, bytes,
                                sides_[gpu].stream()));
    };
    const auto wait = [&] {
      for (const Side& side : sides_) side.wait();
    };
    const double one = seconds_per_call(
        parameters_.rounds, [&] { copy(0); }, wait);
    const double both = seconds_per_call(
        parameters_.rounds,
        [&] {
          copy(0);
          copy(1);
        },
        wait);
    std::printf("copies from GPU 0 to 1: %.0f GB/s; both ways: %.0f GB/s each\n",
                static_cast<double>(bytes) / one / 1e9, static_cast<double>(bytes) / both / 1e9);
    for (int gpu = 0; gpu < 2; ++gpu) {
      sides_[gpu].enter();
      check(cudaFree(memory[gpu]));
      check(cudaFree(from[gpu]));
    }
  }

  const Parameters parameters_;
  std::vector<Side> sides_;
  ReplayedTable model_{parameters_.entries};
  GpuReplay replay_{model_};
  uint64_t seed_ = 0;
  unsigned long long wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_shards_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_shards_bench;
  Parameters parameters;
  if (!begin_bench("device_shards_bench", argc, argv,
                   {flag("--entries", parameters.entries), flag("--rows", parameters.rows),
                    flag("--rounds", parameters.rounds)})) {
    return EXIT_SUCCESS;
  }
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus));
  if (gpus < 2) {
    std::printf("skipped: one GPU\n");
    return EXIT_SUCCESS;
  }
  return Bench(parameters).run();
}
