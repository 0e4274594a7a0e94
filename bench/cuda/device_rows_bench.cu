// gpu::RowTable: rows of 128 floats by key, keys and rows on the GPU, beside a plain copy.
//
// A row begins with a stamp, which each put draws anew; the rest follows from key and stamp. Calls
// are replayed on a model of the stamps, so every row that was read is checked, and what puts and
// erases left is read back.
//
// With several GPUs keys and rows of the calls lie on the first.
//
//   device_rows_bench [--rows N] [--row-bytes N] [--gpus N]
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_replay.cuh"
#include "cuda/stamped_rows.cuh"
#include "isotherm/gpu/row_table.h"

namespace isotherm::bench::device_rows_bench {
namespace {

constexpr uint64_t batch = uint64_t{1} << 20;
constexpr int blocks = 2048;
constexpr int rounds = 9;

class RowsBench {
 public:
  RowsBench(uint64_t rows, uint32_t row_bytes, int gpus)
      : rows_(rows),
        row_bytes_(row_bytes),
        gpus_(gpus),
        table_(options(row_bytes, gpus)),
        keys_(device_array<uint64_t>(batch)),
        stamps_{device_array<uint64_t>(batch), device_array<uint64_t>(batch)},
        stamps_out_(device_array<uint64_t>(batch)),
        found_(device_array<uint8_t>(batch)),
        in_{device_array<uint64_t>(batch * words()), device_array<uint64_t>(batch * words())},
        out_(device_array<uint64_t>(batch * words())),
        model_(rows) {
    check(cudaMemset(in_[0], 1, batch * row_bytes));
  }

  int run() {
    const double copy =
        moved() / median_seconds(rounds, [&](int) {
          check(cudaMemcpyAsync(out_, in_[0], batch * row_bytes_, cudaMemcpyDeviceToDevice));
        });
    std::printf(
        "device_rows_bench: %llu rows of %u bytes on %d GPUs, 2^20 a call, median of %d; a plain "
        "copy "
        "reads and writes %.2f TB/s\n",
        static_cast<unsigned long long>(rows_), row_bytes_, gpus_, rounds, copy / 1e12);
    replay_.fill(keys_, stamps_[0], batch, [&](const TableRequests& puts) {
      write_rows<<<blocks, 256>>>(keys_, stamps_[0], in_[0], puts.rows, words());
      table_.put(keys_, in_[0], puts.rows, nullptr);
    });
    const gpu::TableStats stats = table_.stats();
    std::printf("%llu entries, %.1f bytes an entry\n",
                static_cast<unsigned long long>(stats.entries),
                static_cast<double>(stats.bytes) / static_cast<double>(stats.entries));
    for (const bool zipf : {false, true}) {
      const char* keys = zipf ? "Zipf .99" : "uniform";
      draw(zipf);
      forget_replies(stamps_out_, found_, batch);
      report("GET", keys, copy, [&] { table_.get(keys_, out_, found_, batch, nullptr); });
      check_gets(batch);
      draw(zipf);
      uint64_t turns = 0;
      report("PUT of present keys", keys, copy,
             [&] { table_.put(keys_, in_[turns++ % 2], batch, nullptr); });
      replay(TableOp::put, batch, stamps_[(turns + 1) % 2]);
      table_.erase(keys_, batch / 8, nullptr);
      replay(TableOp::erase, batch / 8, nullptr);
      read_back();
    }
    if (table_.stats().entries != model_.entries()) ++wrong_;
    return end_with(wrong_);
  }

 private:
  static gpu::RowTableOptions options(uint32_t row_bytes, int gpus) {
    gpu::RowTableOptions options;
    for (int gpu = 1; gpu < gpus; ++gpu) options.devices.push_back(gpu);
    options.row_bytes = row_bytes;
    return options;
  }
  uint64_t words() const { return row_bytes_ / sizeof(uint64_t); }
  double moved() const { return 2.0 * static_cast<double>(batch) * row_bytes_; }

  // Keys, and two rows for each, which are put in turn.
  void draw(bool zipf) {
    draw_keys<<<blocks, 256>>>(keys_, batch, rows_, zipf, false, 3);
    for (int i = 0; i < 2; ++i) {
      draw_writes<<<blocks, 256>>>(nullptr, stamps_[i], batch, 1, ++seed_);
      write_rows<<<blocks, 256>>>(keys_, stamps_[i], in_[i], batch, words());
    }
    check(cudaMemset(out_, ReplayedTable::untouched_byte, batch * row_bytes_));
    check(cudaDeviceSynchronize());
  }

  // Calls that have no replies.
  void replay(TableOp op, uint64_t rows, const uint64_t* stamps) {
    TableRequests requests;
    requests.rows = rows;
    requests.op = op;
    requests.keys = keys_;
    requests.values = stamps;
    wrong_ += replay_.replay(requests);
  }
  // The gets of these keys that were answered.
  void check_gets(uint64_t rows) {
    wrong_ += replay_rows(replay_, keys_, out_, stamps_out_, found_, rows, words());
  }
  void read_back() {
    wrong_ += replay_.read_all(
        keys_, stamps_[0], stamps_out_, found_, batch, [&](const TableRequests& gets) {
          table_.get(keys_, out_, found_, gets.rows, nullptr);
          read_rows<<<blocks, 256>>>(keys_, out_, stamps_out_, found_, gets.rows, words());
        });
  }

  template <class Call>
  void report(const std::string& name, const char* keys, double copy, Call&& call) {
    const double rate = moved() / median_seconds(rounds, [&](int) { call(); });
    std::printf("%-20s %-9s %6.2f TB/s read and written, %7.1f M rows/s, %.2f of the copy\n",
                name.c_str(), keys, rate / 1e12, rate / 2e6 / row_bytes_, rate / copy);
  }

  const uint64_t rows_;
  const uint32_t row_bytes_;
  const int gpus_;
  gpu::RowTable table_;
  uint64_t* keys_;
  uint64_t* stamps_[2];
  uint64_t* stamps_out_;
  uint8_t* found_;
  uint64_t* in_[2];
  uint64_t* out_;
  ReplayedTable model_;
  GpuReplay replay_{model_};
  uint64_t seed_ = 0;  // of what is written
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace isotherm::bench::device_rows_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_rows_bench;
  uint64_t rows = uint64_t{20} << 20;
  uint32_t row_bytes = 512;
  uint64_t gpus = 1;
  if (!begin_bench("device_rows_bench", argc, argv,
                   {flag("--rows", rows), flag("--row-bytes", row_bytes), flag("--gpus", gpus)})) {
    return EXIT_SUCCESS;
  }
  return RowsBench(rows, row_bytes, static_cast<int>(gpus)).run();
}
