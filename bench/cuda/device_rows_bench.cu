// DeviceRowTable: rows of 128 floats by key, keys and rows on the GPU, beside a plain copy.
//
//   device_rows_bench [--rows N] [--row-bytes N]
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_batches.cuh"
#include "isotherm/device_row_table.h"

namespace isotherm::bench::device_rows_bench {
namespace {

constexpr uint64_t batch = uint64_t{1} << 20;
constexpr int blocks = 2048;
constexpr int rounds = 9;

class RowsBench {
 public:
  RowsBench(uint64_t rows, uint32_t row_bytes)
      : rows_(rows),
        row_bytes_(row_bytes),
        table_(options(row_bytes)),
        keys_(device_array<uint64_t>(batch)),
        values_(device_array<uint64_t>(batch)),
        found_(device_array<uint8_t>(batch)),
        in_(device_array<char>(batch * row_bytes)),
        out_(device_array<char>(batch * row_bytes)) {
    check(cudaMemset(in_, 1, batch * row_bytes));
  }

  void run() {
    const double copy =
        moved() / median_seconds(rounds, [&](int) {
          check(cudaMemcpyAsync(out_, in_, batch * row_bytes_, cudaMemcpyDeviceToDevice));
        });
    std::printf(
        "device_rows_bench: %llu rows of %u bytes, 2^20 a call, median of %d; a plain copy "
        "reads and writes %.2f TB/s\n",
        static_cast<unsigned long long>(rows_), row_bytes_, rounds, copy / 1e12);
    for (uint64_t first = 0; first < rows_; first += batch) {
      fresh_keys<<<blocks, 256>>>(keys_, values_, batch, first);
      table_.put(keys_, in_, nullptr, batch, nullptr);
    }
    const DeviceTableStats stats = table_.stats();
    std::printf("%llu entries, %.1f bytes an entry\n",
                static_cast<unsigned long long>(stats.entries),
                static_cast<double>(stats.bytes) / static_cast<double>(stats.entries));
    for (const bool zipf : {false, true}) {
      const char* keys = zipf ? "Zipf .99" : "uniform";
      report("GET", keys, copy, zipf, [&] { table_.get(keys_, out_, found_, batch, nullptr); });
      report("PUT of present keys", keys, copy, zipf,
             [&] { table_.put(keys_, in_, nullptr, batch, nullptr); });
    }
  }

 private:
  static DeviceRowTableOptions options(uint32_t row_bytes) {
    DeviceRowTableOptions options;
    options.row_bytes = row_bytes;
    return options;
  }
  double moved() const { return 2.0 * static_cast<double>(batch) * row_bytes_; }

  template <class Call>
  void report(const std::string& name, const char* keys, double copy, bool zipf, Call&& call) {
    draw_keys<<<blocks, 256>>>(keys_, batch, rows_, zipf, false, 3);
    const double rate = moved() / median_seconds(rounds, [&](int) { call(); });
    std::printf("%-20s %-9s %6.2f TB/s read and written, %7.1f M rows/s, %.2f of the copy\n",
                name.c_str(), keys, rate / 1e12, rate / 2e6 / row_bytes_, rate / copy);
  }

  const uint64_t rows_;
  const uint32_t row_bytes_;
  DeviceRowTable table_;
  uint64_t* keys_;
  uint64_t* values_;
  uint8_t* found_;
  char* in_;
  char* out_;
};

}  // namespace
}  // namespace isotherm::bench::device_rows_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_rows_bench;
  uint64_t rows = uint64_t{20} << 20;
  uint32_t row_bytes = 512;
  if (!begin_bench("device_rows_bench", argc, argv,
                   {flag("--rows", rows), flag("--row-bytes", row_bytes)})) {
    return EXIT_SUCCESS;
  }
  RowsBench(rows, row_bytes).run();
  return EXIT_SUCCESS;
}
