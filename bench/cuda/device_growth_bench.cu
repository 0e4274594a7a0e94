// gpu::Table from empty to a billion entries: the rate of puts, growth included, and all answers.
//
//   device_growth_bench [--entries N]
#include <memory>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "cuda/gpu_replay.cuh"
#include "isotherm/gpu/table.h"

namespace isotherm::bench::device_growth_bench {
namespace {

constexpr uint64_t rows = uint64_t{1} << 24;
constexpr int blocks = 2048;

class Growth {
 public:
  Growth()
      : keys_(device_array<uint64_t>(rows)),
        values_(device_array<uint64_t>(rows)),
        out_(device_array<uint64_t>(rows)),
        found_(device_array<uint8_t>(rows)),
        wrong_(device_array<unsigned long long>(1)) {
    check(cudaMemset(wrong_, 0, sizeof *wrong_));
  }

  int run(uint64_t entries) {
    std::printf("%12s %10s %12s %10s\n", "entries", "M puts/s", "bytes/entry", "wrong");
    uint64_t present = 0;
    for (uint64_t target = 1'000'000; present < entries; target *= 10) {
      const uint64_t end = std::min(target, entries);
      const double took = fill(present, end);
      verify(end);
      const gpu::TableStats stats = table_.stats();
      unsigned long long wrong = 0;
      check(cudaMemcpy(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost));
      wrong += stats.entries != end;
      std::printf("%12llu %10.0f %12.2f %10llu\n", static_cast<unsigned long long>(stats.entries),
                  static_cast<double>(end - present) / took / 1e6,
                  static_cast<double>(stats.bytes) / static_cast<double>(stats.entries), wrong);
      present = end;
      if (wrong != 0) return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
  }

 private:
  double fill(uint64_t first, uint64_t end) {
    double took = 0;
    for (; first < end; first += rows) {
      const uint64_t part = std::min(rows, end - first);
      fresh_keys<<<blocks, 256>>>(keys_, values_, part, first);
      took += median_seconds(0, [&](int) { table_.put(keys_, values_, part, nullptr); });
    }
    return took;
  }

  // Every entry, and as many absent keys.
  void verify(uint64_t end) {
    for (uint64_t first = 0; first < end; first += rows) {
      const uint64_t part = std::min(rows, end - first);
      for (const bool present : {true, false}) {
        fresh_keys<<<blocks, 256>>>(keys_, values_, part, first + (present ? 0 : absent_from));
        forget_replies(out_, found_, part);
        table_.get(keys_, out_, found_, part, nullptr);
        count_wrong<<<blocks, 256>>>(keys_, out_, found_, part, present, wrong_);
      }
    }
    check(cudaDeviceSynchronize());
  }

  static constexpr uint64_t absent_from = uint64_t{1} << 40;
  gpu::Table table_;
  uint64_t* keys_;
  uint64_t* values_;
  uint64_t* out_;
  uint8_t* found_;
  unsigned long long* wrong_;
};

}  // namespace
}  // namespace isotherm::bench::device_growth_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_growth_bench;
  uint64_t entries = 1'000'000'000;
  if (!begin_bench("device_growth_bench", argc, argv, {flag("--entries", entries)})) {
    return EXIT_SUCCESS;
  }
  return Growth().run(entries);
}
