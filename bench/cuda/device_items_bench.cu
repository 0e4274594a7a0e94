// gpu::ItemTable: 16-byte keys to values of one size, from pinned host memory and back, each
// beside a plain copy of the same values over the bus in the same run.
//
//   device_items_bench [--items N] [--value-bytes N] [--batch N] [--rounds N]
//                      [--gpu-memory MB] [--host-memory MB] [--host-items-from BYTES]
//
// Without --value-bytes it runs 64 and 256. A value begins with a stamp, which each put draws anew;
// the rest follows from key and stamp. After each call a model of the stamps replays it, and so
// every reply is checked; of the writes in mixed calls one in ten erases. The last three flags are
// options of the table: with little memory of the GPU and some of the host, a share of the items
// lies on the host; it is printed.
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "cuda/bench_flags.h"
#include "cuda/gpu_replay.cuh"
#include "cuda/stamped_words.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm::bench::device_items_bench {
namespace {

struct Parameters {
  uint64_t items = 100'000'000;
  uint64_t value_bytes = 0;  // 0: 64 and 256
  uint64_t batch = uint64_t{1} << 20;
  int rounds = 15;
  // Of the table; 0: as it is without.
  uint64_t gpu_megabytes = 0;
  uint64_t host_megabytes = 0;
  uint64_t host_items_from = 0;
};

gpu::ItemTableOptions table_options(const Parameters& parameters) {
  constexpr uint64_t megabyte = 1'000'000;
  gpu::ItemTableOptions options;
  options.gpu_memory = parameters.gpu_megabytes * megabyte;
  options.pinned_item_memory = parameters.host_megabytes * megabyte;
  options.pinned_items_from = parameters.host_items_from;
  return options;
}

constexpr uint64_t key_bytes = 16;
constexpr int blocks = 2048;
constexpr int batches = 4;  // of each kind, in turn, so that no cache holds one

// The 16 bytes of each key, and the first value of each.
__global__ void make_columns(const uint64_t* keys, uint64_t rows, uint64_t value_words,
                             uint64_t* key_column, int64_t* key_offsets, uint64_t* values) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i <= rows; i += stride) {
    key_offsets[i] = static_cast<int64_t>(i * key_bytes);
    if (i == rows) return;
    key_column[2 * i] = keys[i];
    key_column[2 * i + 1] = scramble(keys[i]);
    if (values == nullptr) continue;
    for (uint64_t w = 0; w < value_words; ++w) {
      values[i * value_words + w] = stamped_word(keys[i], keys[i] * 3, w);
    }
  }
}

__global__ void make_offsets(int64_t* offsets, uint64_t rows, uint64_t bytes) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i <= rows; i += stride) {
    offsets[i] = static_cast<int64_t>(i * bytes);
  }
}

template <class T>
T* pinned_array(uint64_t count) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

// Requests in pinned memory, with their keys as numbers.
struct HostBatch {
  uint64_t* numbers;
  char* keys;
  int64_t* key_offsets;
  TableOp* ops;
  uint64_t* stamps;
  char* values;
  int64_t* value_offsets;
};

class ItemsBench {
 public:
  ItemsBench(const Parameters& parameters, uint64_t value_bytes)
      : parameters_(parameters),
        rows_(parameters.batch),
        value_bytes_(value_bytes),
        table_(table_options(parameters)),
        numbers_(device_array<uint64_t>(rows_)),
        keys_(device_array<uint64_t>(rows_ * 2)),
        key_offsets_(device_array<int64_t>(rows_ + 1)),
        values_(device_array<char>(rows_ * value_bytes)),
        value_offsets_(device_array<int64_t>(rows_ + 1)),
        ops_(device_array<TableOp>(rows_)),
        device_found_(device_array<uint8_t>(rows_)),
        device_offsets_(device_array<int64_t>(rows_ + 1)),
        device_bytes_(device_array<char>(rows_ * value_bytes)),
        found_(pinned_array<uint8_t>(rows_)),
        offsets_(pinned_array<int64_t>(rows_ + 1)),
        bytes_(pinned_array<char>(rows_ * value_bytes)) {
    for (HostBatch& batch : batches_) {
      batch = {pinned_array<uint64_t>(rows_),    pinned_array<char>(rows_ * key_bytes),
               pinned_array<int64_t>(rows_ + 1), pinned_array<TableOp>(rows_),
               pinned_array<uint64_t>(rows_),    pinned_array<char>(rows_ * value_bytes),
               pinned_array<int64_t>(rows_ + 1)};
    }
  }
  ~ItemsBench() {
    for (void* memory :
         {static_cast<void*>(numbers_), static_cast<void*>(keys_), static_cast<void*>(key_offsets_),
          static_cast<void*>(values_), static_cast<void*>(value_offsets_), static_cast<void*>(ops_),
          static_cast<void*>(device_found_), static_cast<void*>(device_offsets_),
          static_cast<void*>(device_bytes_)}) {
      check(cudaFree(memory));
    }
    for (void* memory :
         {static_cast<void*>(found_), static_cast<void*>(offsets_), static_cast<void*>(bytes_)}) {
      check(cudaFreeHost(memory));
    }
    for (const HostBatch& batch : batches_) {
      for (void* memory : {static_cast<void*>(batch.numbers), static_cast<void*>(batch.keys),
                           static_cast<void*>(batch.key_offsets), static_cast<void*>(batch.ops),
                           static_cast<void*>(batch.stamps), static_cast<void*>(batch.values),
                           static_cast<void*>(batch.value_offsets)}) {
        check(cudaFreeHost(memory));
      }
    }
  }
  ItemsBench(const ItemsBench&) = delete;
  ItemsBench& operator=(const ItemsBench&) = delete;

  // The number of wrong replies.
  uint64_t run() {
    measure_bus();
    fill();
    for (const bool zipf : {true, false}) {
      gets_on_device(zipf);
      draw(zipf, 0);
      report("GET, host", zipf, [&](const HostBatch& batch) { get(batch); });
      draw(zipf, 20);
      report("95/5 GET/PUT, host", zipf, [&](const HostBatch& batch) { mixed(batch); });
    }
    draw(true, 2);
    report("50/50 GET/PUT, host", true, [&](const HostBatch& batch) { mixed(batch); });
    draw(false, 1);
    report("PUT of present keys, host", false, [&](const HostBatch& batch) { put(batch); });
    std::printf("wrong replies: %llu\n\n", static_cast<unsigned long long>(wrong_));
    return wrong_;
  }

 private:
  double value_rate(double seconds) const { return static_cast<double>(rows_) / seconds; }

  void measure_bus() {
    const auto rate = [&](bool out) {
      return value_rate(median_seconds(parameters_.rounds, [&](int) {
        if (out) {
          check(cudaMemcpyAsync(bytes_, values_, rows_ * value_bytes_, cudaMemcpyDeviceToHost));
        } else {
          check(cudaMemcpyAsync(values_, bytes_, rows_ * value_bytes_, cudaMemcpyHostToDevice));
        }
      }));
    };
    bus_ = rate(true);
    std::printf(
        "a plain copy of %llu values of %llu bytes to the host: %.1f GB/s, %.1f M/s; to the "
        "device: %.1f M/s\n",
        static_cast<unsigned long long>(rows_), static_cast<unsigned long long>(value_bytes_),
        bus_ * static_cast<double>(value_bytes_) / 1e9, bus_ / 1e6, rate(false) / 1e6);
  }

  // All items, from arrays on the device.
  void fill() {
    const auto begin = std::chrono::steady_clock::now();
    make_offsets<<<blocks, 256>>>(value_offsets_, rows_, value_bytes_);
    for (uint64_t first = 0; first < parameters_.items; first += rows_) {
      const uint64_t rows = std::min(rows_, parameters_.items - first);
      fresh_keys<<<blocks, 256>>>(numbers_, keys_, rows, first);  // keys_ is overwritten next
      columns(rows);
      table_.put(device_keys(), {value_offsets_, values_}, rows, nullptr);
    }
    const gpu::ItemStats stats = table_.stats();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf(
        "PUT of new keys, device, growth included: %.1f M/s; %llu items, %.1f bytes an item "
        "of %llu, work space %.0f MB; %.3f of the items on the host\n",
        static_cast<double>(stats.entries) / took.count() / 1e6,
        static_cast<unsigned long long>(stats.entries),
        static_cast<double>(stats.bytes + stats.host_bytes) / static_cast<double>(stats.entries),
        static_cast<unsigned long long>(key_bytes + value_bytes_),
        static_cast<double>(stats.workspace) / 1e6,
        static_cast<double>(stats.host_entries) / static_cast<double>(stats.entries));
    if (stats.entries != parameters_.items) ++wrong_;
    model_.fill();
  }

  gpu::Bytes device_keys() const { return {key_offsets_, reinterpret_cast<char*>(keys_)}; }

  // From numbers_.
  void columns(uint64_t rows) {
    make_columns<<<blocks, 256>>>(numbers_, rows, value_bytes_ / sizeof(uint64_t), keys_,
                                  key_offsets_, reinterpret_cast<uint64_t*>(values_));
  }

  // Batches of keys in pinned memory; one in `one_in` is a put, none with 0.
  void draw(bool zipf, uint64_t one_in) {
    for (int b = 0; b < batches; ++b) {
      const HostBatch& batch = batches_[b];
      draw_keys<<<blocks, 256>>>(numbers_, rows_, parameters_.items, zipf, false, 100 + b);
      columns(rows_);
      check(cudaMemcpy(batch.numbers, numbers_, rows_ * 8, cudaMemcpyDeviceToHost));
      check(cudaMemset(ops_, one_in == 1 ? static_cast<int>(TableOp::put) : 0, rows_));
      // The values that it draws as well are of no use here.
      if (one_in > 1) draw_writes<<<blocks, 256>>>(ops_, numbers_, rows_, one_in, 7 + b);
      check(cudaMemcpy(batch.keys, keys_, rows_ * key_bytes, cudaMemcpyDeviceToHost));
      check(cudaMemcpy(batch.key_offsets, key_offsets_, (rows_ + 1) * 8, cudaMemcpyDeviceToHost));
      check(cudaMemcpy(batch.ops, ops_, rows_, cudaMemcpyDeviceToHost));
    }
  }

  // Other values than before for the puts of a batch, and no replies yet.
  void prepare(const HostBatch& batch) {
    int64_t at = 0;
    for (uint64_t i = 0; i < rows_; ++i) {
      batch.value_offsets[i] = at;
      if (batch.ops[i] != TableOp::put) continue;
      batch.stamps[i] = scramble(++stamps_);
      for (uint64_t w = 0; w < value_bytes_ / 8; ++w, at += 8) {
        const uint64_t word = stamped_word(batch.numbers[i], batch.stamps[i], w);
        std::memcpy(batch.values + at, &word, sizeof word);
      }
    }
    batch.value_offsets[rows_] = at;
    forget();
  }
  // The bytes of the call before are another batch's.
  void forget() {
    std::memset(found_, ReplayedTable::untouched_byte, rows_);
    std::memset(offsets_, ReplayedTable::untouched_byte, (rows_ + 1) * sizeof *offsets_);
  }

  gpu::ItemRequests requests(const HostBatch& batch) const {
    gpu::ItemRequests requests;
    requests.rows = rows_;
    requests.keys = {batch.key_offsets, batch.keys};
    requests.replies = {found_, offsets_, bytes_, rows_ * value_bytes_};
    return requests;
  }
  void get(const HostBatch& batch) { table_.run_host(requests(batch)); }
  void mixed(const HostBatch& batch) {
    gpu::ItemRequests call = requests(batch);
    call.ops = batch.ops;
    call.values = {batch.value_offsets, batch.values};
    table_.run_host(call);
  }
  void put(const HostBatch& batch) {
    gpu::ItemRequests call = requests(batch);
    call.op = TableOp::put;
    call.values = {batch.value_offsets, batch.values};
    table_.run_host(call);
  }

  template <class Call>
  void report(const char* name, bool zipf, Call&& call) {
    std::vector<double> seconds;
    for (int round = -1; round < parameters_.rounds; ++round) {
      const HostBatch& batch = batches_[(round + batches) % batches];
      prepare(batch);
      const auto begin = std::chrono::steady_clock::now();
      call(batch);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round >= 0) seconds.push_back(took.count());
      verify(batch);
    }
    print(name, zipf, seconds);
  }
  void print(const char* name, bool zipf, std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const double rate = value_rate(seconds[seconds.size() / 2]);
    std::printf("%-26s %-9s %7.1f M/s (slowest %.1f, fastest %.1f), %.2f of the copy\n", name,
                zipf ? "Zipf .99" : "uniform", rate / 1e6, value_rate(seconds.back()) / 1e6,
                value_rate(seconds.front()) / 1e6, rate / bus_);
    std::fflush(stdout);
  }

  void gets_on_device(bool zipf) {
    draw_keys<<<blocks, 256>>>(numbers_, rows_, parameters_.items, zipf, false, 99);
    columns(rows_);
    const gpu::ItemReplies replies{device_found_, device_offsets_, device_bytes_,
                                   rows_ * value_bytes_};
    check(cudaMemset(device_found_, ReplayedTable::untouched_byte, rows_));
    check(cudaMemset(device_bytes_, ReplayedTable::untouched_byte, rows_ * value_bytes_));
    const double seconds = median_seconds(
        parameters_.rounds, [&](int) { table_.get(device_keys(), replies, rows_, nullptr); });
    check(cudaMemcpy(found_, device_found_, rows_, cudaMemcpyDeviceToHost));
    check(cudaMemcpy(offsets_, device_offsets_, (rows_ + 1) * 8, cudaMemcpyDeviceToHost));
    check(cudaMemcpy(bytes_, device_bytes_, rows_ * value_bytes_, cudaMemcpyDeviceToHost));
    const HostBatch& batch = batches_[0];
    check(cudaMemcpy(batch.numbers, numbers_, rows_ * 8, cudaMemcpyDeviceToHost));
    std::memset(batch.ops, 0, rows_);
    verify(batch);
    print("GET, device", zipf, {seconds});
  }

  // What the replies say of each row, as a table of stamps would, goes to the model.
  void verify(const HostBatch& batch) {
    uint64_t at = 0;
    values_out_.assign(rows_, ReplayedTable::untouched);
    for (uint64_t i = 0; i < rows_; ++i) {
      if (offsets_[i] != static_cast<int64_t>(at)) ++wrong_;
      if (batch.ops[i] != TableOp::get || found_[i] != 1) continue;
      if (at + value_bytes_ > rows_ * value_bytes_) break;
      std::memcpy(words_.data(), bytes_ + at, words_.size() * sizeof words_[0]);
      values_out_[i] = words_[0];
      if (!are_stamped(batch.numbers[i], words_.data(), words_.size())) {
        found_[i] = ReplayedTable::untouched_byte;
      }
      at += value_bytes_;
    }
    wrong_ += offsets_[rows_] != static_cast<int64_t>(at);
    TableRequests replayed;
    replayed.rows = rows_;
    replayed.ops = batch.ops;
    replayed.keys = batch.numbers;
    replayed.values = batch.stamps;
    replayed.values_out = values_out_.data();
    replayed.found = found_;
    wrong_ += model_.replay(replayed, ReplayedTable::Values::gets);
  }

  const Parameters parameters_;
  const uint64_t rows_;
  const uint64_t value_bytes_;
  gpu::ItemTable table_;
  uint64_t* numbers_;
  uint64_t* keys_;
  int64_t* key_offsets_;
  char* values_;
  int64_t* value_offsets_;
  TableOp* ops_;
  uint8_t* device_found_;
  int64_t* device_offsets_;
  char* device_bytes_;
  uint8_t* found_;
  int64_t* offsets_;
  char* bytes_;
  HostBatch batches_[batches];
  double bus_ = 0;  // values a second
  ReplayedTable model_{parameters_.items};
  std::vector<uint64_t> values_out_;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(value_bytes_ / sizeof(uint64_t));
  uint64_t stamps_ = 0;  // drawn
  uint64_t wrong_ = 0;
};

void print_environment(const Parameters& parameters) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  int driver = 0;
  check(cudaDriverGetVersion(&driver));
  std::printf(
      "device_items_bench: %s, CUDA %d.%d; %llu items, keys of %llu bytes, %llu rows a "
      "call, median of %d\n",
      properties.name, driver / 1000, driver % 1000 / 10,
      static_cast<unsigned long long>(parameters.items), static_cast<unsigned long long>(key_bytes),
      static_cast<unsigned long long>(parameters.batch), parameters.rounds);
}

}  // namespace
}  // namespace isotherm::bench::device_items_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  using namespace device_items_bench;
  Parameters parameters;
  if (!begin_bench(
          "device_items_bench", argc, argv,
          {flag("--items", parameters.items), flag("--value-bytes", parameters.value_bytes),
           flag("--batch", parameters.batch), flag("--rounds", parameters.rounds),
           flag("--gpu-memory", parameters.gpu_megabytes),
           flag("--host-memory", parameters.host_megabytes),
           flag("--host-items-from", parameters.host_items_from)})) {
    return EXIT_SUCCESS;
  }
  if (parameters.value_bytes % 8 != 0) {
    std::fprintf(stderr, "device_items_bench: --value-bytes must be a multiple of 8\n");
    return 64;
  }
  print_environment(parameters);
  uint64_t wrong = 0;
  for (const uint64_t value_bytes : {uint64_t{64}, uint64_t{256}}) {
    if (parameters.value_bytes == 0) wrong += ItemsBench(parameters, value_bytes).run();
  }
  if (parameters.value_bytes != 0) wrong = ItemsBench(parameters, parameters.value_bytes).run();
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
