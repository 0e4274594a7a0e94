// What lookups and writes of a gpu::Table cost: the GPU's watts, by its own meter, and requests a
// joule, for each load; keys and results in device memory. The host is not counted.
//
// The calls of a row come again and again, those with writes with two columns of values in turn: so
// each puts other values than it finds, and the last calls of all are replayed on the host.
//
//   device_energy_bench [--entries N] [--seconds S]
#include <memory>
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_energy.h"
#include "cuda/gpu_replay.cuh"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_energy_bench {
namespace {

constexpr uint64_t largest = uint64_t{1} << 26;
constexpr int blocks = 2048;

struct Parameters {
  uint64_t entries = 100'000'000;
  double seconds = 1.5;
};

class Bench {
 public:
  explicit Bench(const Parameters& parameters)
      : parameters_(parameters),
        keys_(device_array<uint64_t>(largest)),
        values_{device_array<uint64_t>(largest), device_array<uint64_t>(largest)},
        out_(device_array<uint64_t>(largest)),
        found_(device_array<uint8_t>(largest)),
        ops_(device_array<TableOp>(largest)) {}

  int run() {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    std::printf("device_energy_bench: %s, %llu entries, %.1f s a row\n", properties.name,
                static_cast<unsigned long long>(parameters_.entries), parameters_.seconds);
    if (!energy_.available()) {
      std::printf("the driver shows no energy meter\n");
      return EXIT_SUCCESS;
    }
    std::printf("%-36s %10s %8s %14s\n", "", "G/s", "watts", "M requests/J");
    idle();
    fill();
    for (const int shift : {26, 20, 16}) gets("GET hits", shift, false, false);
    gets("GET misses", 26, false, true);
    gets("GET Zipf .99", 26, true, false);
    mixed("PUT of present keys, uniform", 22, false, 1);
    mixed("PUT of present keys, Zipf .99", 22, true, 1);
    mixed("95/5 in order, Zipf .99", 22, true, 20);
    mixed("95/5 in order, Zipf .99", 16, true, 20);
    return end_with(wrong_);
  }

 private:
  void idle() {
    const EnergyUsed used(energy_);
    while (used.seconds() < parameters_.seconds) {
    }
    std::printf("%-36s %10s %8.0f\n", "nothing", "", used.joules() / used.seconds());
  }

  void fill() {
    gpu::TableOptions options;
    options.expected_entries = parameters_.entries;
    table_ = std::make_unique<gpu::Table>(options);
    restore();
  }
  // Every entry has its first value.
  void restore() {
    replay_.fill(keys_, values_[0], largest,
                 [&](const TableRequests& puts) { table_->run(puts, nullptr); });
  }

  void gets(const char* name, int shift, bool zipf, bool absent) {
    draw_keys<<<blocks, 256>>>(keys_, largest, parameters_.entries, zipf, absent, 5);
    forget_replies(out_, found_, largest);
    TableRequests all = columns();
    measure(name, shift, [&](uint64_t first, uint64_t rows, uint64_t /*turn*/) {
      table_->run(rows_of(all, first, rows), nullptr);
    });
    wrong_ += replay_.replay(all);
  }

  // One write in `one_in`.
  void mixed(const char* name, int shift, bool zipf, uint64_t one_in) {
    restore();
    draw_keys<<<blocks, 256>>>(keys_, largest, parameters_.entries, zipf, false, 9);
    TableRequests all[2] = {columns(), columns()};
    for (int i = 0; i < 2; ++i) {
      // The operations are those that were drawn last.
      all[i].op = TableOp::put;
      all[i].ops = one_in == 1 ? nullptr : ops_;
      all[i].values = values_[i];
      draw_writes<<<blocks, 256>>>(one_in == 1 ? nullptr : ops_, values_[i], largest, one_in,
                                   ++seed_);
    }
    forget_replies(out_, found_, largest);
    const uint64_t turns = measure(name, shift, [&](uint64_t first, uint64_t rows, uint64_t turn) {
      table_->run(rows_of(all[turn % 2], first, rows), nullptr);
    });
    // One turn more, with columns that hold nothing: rows that find no key leave what is there.
    // What it finds depends on the turn before it alone.
    forget_replies(out_, found_, largest);
    const uint64_t rows = uint64_t{1} << shift;
    for (uint64_t first = 0; first < largest; first += rows) {
      table_->run(rows_of(all[turns % 2], first, rows), nullptr);
    }
    check(cudaDeviceSynchronize());
    TableRequests before = all[(turns + 1) % 2];
    before.values_out = nullptr;
    before.found = nullptr;
    wrong_ += replay_.replay(before) + replay_.replay(all[turns % 2]);
    wrong_ += replay_.read_all(keys_, values_[0], out_, found_, largest,
                               [&](const TableRequests& gets) { table_->run(gets, nullptr); });
  }

  TableRequests columns() const {
    TableRequests all;
    all.rows = largest;
    all.keys = keys_;
    all.values_out = out_;
    all.found = found_;
    return all;
  }

  // Calls until the time is over, some at a time, so that the GPU never waits for the host. How
  // often each row had its turn.
  template <class Call>
  uint64_t measure(const char* name, int shift, Call&& call) {
    const uint64_t rows = uint64_t{1} << shift;
    const uint64_t at_a_time = std::max<uint64_t>(1, largest / rows);
    uint64_t done = 0;
    uint64_t turns = 0;
    const auto some = [&] {
      for (uint64_t i = 0; i < at_a_time; ++i) call(i * rows % largest, rows, turns);
      ++turns;
      check(cudaStreamSynchronize(nullptr));
      done += at_a_time * rows;
    };
    some();
    done = 0;
    const EnergyUsed used(energy_);
    while (used.seconds() < parameters_.seconds) some();
    const double took = used.seconds();
    const double joules = used.joules();
    const std::string text = std::string(name) + ", 2^" + std::to_string(shift);
    std::printf("%-36s %10.2f %8.0f %14.1f\n", text.c_str(), static_cast<double>(done) / took / 1e9,
                joules / took, static_cast<double>(done) / joules / 1e6);
    return turns;
  }

  const Parameters parameters_;
  const GpuEnergy energy_;
  uint64_t* keys_;
  uint64_t* values_[2];
  uint64_t* out_;
  uint8_t* found_;
  TableOp* ops_;
  std::unique_ptr<gpu::Table> table_;
  ReplayedTable model_{parameters_.entries};
  GpuReplay replay_{model_};
  uint64_t seed_ = 0;  // of what is written
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_energy_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_energy_bench;
  Parameters parameters;
  if (!begin_bench(
          "device_energy_bench", argc, argv,
          {flag("--entries", parameters.entries), flag("--seconds", parameters.seconds)})) {
    return EXIT_SUCCESS;
  }
  return Bench(parameters).run();
}
