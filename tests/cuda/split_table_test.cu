// Runs the checks of tables over several GPUs: with two shards on GPU 0, and on GPUs 0 and 1 where
// there are two; without a GPU it says so and succeeds.
//
//   split_table_test [rows of a large slice]
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cuda/gpu_checks.h"
#include "device_checks/device_row_checks.h"
#include "device_checks/split_item_checks.h"
#include "device_checks/split_table_checks.h"
#include "isotherm/gpu/item_table.h"
#include "isotherm/gpu/row_filter.h"
#include "isotherm/gpu/row_table.h"
#include "isotherm/gpu/table.h"

namespace isotherm::split_table_test {
namespace {

using Column = DeviceArray<CudaDevice, uint64_t>;

// A slice of gets on one GPU.
struct Slice {
  Slice(CudaDevice& its_device, const std::vector<uint64_t>& of_keys)
      : device(its_device),
        memory(its_device, 0),
        stream(its_device),
        keys(memory, of_keys.size()),
        values(memory, of_keys.size()),
        found(memory, of_keys.size()) {
    require_device(device.to_device(stream.get(), keys.data(), of_keys.data(), keys.bytes()) &&
                       device.synchronize(stream.get()),
                   "copy keys");
    gets.rows = of_keys.size();
    gets.keys = keys.data();
    gets.values_out = values.data();
    gets.found = found.data();
  }
  // Rows that are not present with three times their key.
  uint64_t wrong() {
    const uint64_t rows = gets.rows;
    std::vector<uint64_t> asked(rows), got(rows);
    std::vector<uint8_t> present(rows);
    require_device(device.to_host(stream.get(), asked.data(), keys.data(), keys.bytes()) &&
                       device.to_host(stream.get(), got.data(), values.data(), values.bytes()) &&
                       device.to_host(stream.get(), present.data(), found.data(), rows) &&
                       device.synchronize(stream.get()),
                   "copy replies");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < rows; ++i) {
      if (present[i] != 1 || got[i] != asked[i] * 3) ++wrong;
    }
    return wrong;
  }

  CudaDevice& device;
  DeviceMemory<CudaDevice> memory;
  DeviceStream<CudaDevice> stream;
  Column keys, values;
  DeviceArray<CudaDevice, uint8_t> found;
  TableRequests gets;
};

// The public class: what is put from the host is found from the host and from slices, and the
// thread keeps its GPU.
uint64_t check_public_class(const std::vector<int>& gpus, uint64_t scale) {
  gpu::TableOptions options;
  options.devices = gpus;
  options.expected_entries = scale;
  gpu::Table table(options);
  std::vector<uint64_t> keys(scale), values(scale), got(scale);
  std::vector<uint8_t> found(scale);
  for (uint64_t i = 0; i < scale; ++i) {
    keys[i] = i * i + 7;
    values[i] = keys[i] * 3;
  }
  const int last = gpus.back();
  require_device(cudaSetDevice(last) == cudaSuccess, "choose a GPU");
  table.put(keys, values);
  table.get(keys, got, found);
  uint64_t wrong = got == values ? 0 : 1;
  {
    std::deque<CudaDevice> devices;
    std::deque<Slice> slices;
    std::vector<TableRequests> requests;
    std::vector<cudaStream_t> streams;
    for (const int gpu : gpus) {
      slices.emplace_back(devices.emplace_back(gpu), keys);
      requests.push_back(slices.back().gets);
      streams.push_back(slices.back().stream.get());
    }
    table.run(requests, streams);
    for (Slice& slice : slices) wrong += slice.wrong();
  }
  table.erase(keys);
  if (table.stats().entries != 0 || table.gpus() != gpus.size()) ++wrong;
  int now = -1;
  cudaGetDevice(&now);
  return now == last ? wrong : wrong + 1;
}

struct EveryThird {
  __device__ bool operator()(uint64_t key, const void* row, uint64_t /*score*/) const {
    return key % 3 == 1 && *static_cast<const uint64_t*>(row) == key * 5;
  }
};

// A walk by a predicate of this file's gives each row that it wants at least once, and no other.
uint64_t check_predicate(const std::vector<int>& gpus, CudaDevice& home, uint64_t scale) {
  constexpr uint32_t words = 2;
  gpu::RowTableOptions options;
  options.devices = gpus;
  options.row_bytes = words * sizeof(uint64_t);
  gpu::RowTable table(options);
  std::vector<uint64_t> keys(scale), rows(words * scale);
  for (uint64_t i = 0; i < scale; ++i) {
    keys[i] = i;
    rows[words * i] = rows[words * i + 1] = i * 5;
  }
  table.put(keys, std::as_bytes(std::span(rows)));
  DeviceMemory<CudaDevice> memory(home, 0);
  const DeviceStream<CudaDevice> stream(home);
  const uint64_t room = scale / 4 + 64;
  Column all_keys(memory, room), all_rows(memory, words * room), its_keys(memory, room),
      its_rows(memory, words * room);
  DeviceArray<CudaDevice, uint32_t> count(memory, 1);
  gpu::RowExport chunk, kept;
  chunk.capacity = room;
  chunk.keys = all_keys.data();
  chunk.rows = all_rows.data();
  kept.keys = its_keys.data();
  kept.rows = its_rows.data();
  uint64_t wrong = 0;
  std::set<uint64_t> seen;
  uint64_t cursor = 0;
  do {
    cursor = gpu::export_rows_where(table, cursor, chunk, kept, options.row_bytes, EveryThird{},
                                    count.data(), stream.get());
    std::vector<uint64_t> got(kept.count), got_rows(words * kept.count);
    require_device(
        home.to_host(stream.get(), got.data(), its_keys.data(), 8 * got.size()) &&
            home.to_host(stream.get(), got_rows.data(), its_rows.data(), 8 * got_rows.size()) &&
            home.synchronize(stream.get()),
        "copy rows");
    for (uint64_t i = 0; i < got.size(); ++i) {
      const bool is_right = got[i] % 3 == 1 && got[i] < scale &&
                            got_rows[words * i] == got[i] * 5 &&
                            got_rows[words * i + 1] == got[i] * 5;
      if (!is_right) ++wrong;
      seen.insert(got[i]);
    }
  } while (cursor != 0);
  const uint64_t wanted = (scale + 1) / 3;
  return seen.size() == wanted ? wrong : wrong + 1;
}

// A table of rows, or of items, on the first GPU: the thread keeps the last.
template <class Table, class Options>
uint64_t check_gpu_is_kept(const std::vector<int>& gpus, Options options) {
  const int last = gpus.back();
  require_device(cudaSetDevice(last) == cudaSuccess, "choose a GPU");
  options.devices = {gpus.front()};
  int after_call = -1;
  int now = -1;
  {
    Table table(options);
    if (table.stats().entries != 0) return 1;
    cudaGetDevice(&after_call);
  }
  cudaGetDevice(&now);
  return now == last && after_call == last ? 0 : 1;
}

void run_on(GpuChecks& checks, const std::vector<int>& gpus, const std::string& where) {
  std::deque<CudaDevice> devices;
  std::vector<CudaDevice*> pointers;
  for (const int gpu : gpus) pointers.push_back(&devices.emplace_back(gpu));
  for (const bool with_host : {false, true}) {
    const SplitSetup<CudaDevice> setup{pointers, with_host};
    for (const auto& check : split_table_checks<CudaDevice>) {
      checks.run((check.name + where + (with_host ? ", with host memory" : "")).c_str(),
                 [&](CudaDevice& /*device*/, uint64_t scale) { return check.run(setup, scale); });
    }
  }
  for (const auto& check : split_row_checks<CudaDevice>) {
    checks.run((check.name + where).c_str(),
               [&](CudaDevice& /*device*/, uint64_t scale) { return check.run(pointers, scale); });
  }
  for (const auto& check : split_item_checks<CudaDevice>) {
    checks.run((check.name + where).c_str(),
               [&](CudaDevice& /*device*/, uint64_t scale) { return check.run(pointers, scale); });
  }
  checks.run(("gpu::Table" + where).c_str(), [&](CudaDevice& /*device*/, uint64_t scale) {
    return check_public_class(gpus, scale);
  });
  checks.run(("rows by a predicate of the caller's" + where).c_str(),
             [&](CudaDevice&, uint64_t scale) {
               require_device(devices.front().enter(), "choose a GPU");
               return check_predicate(gpus, devices.front(), scale);
             });
  checks.run(("rows and items keep the GPU" + where).c_str(), [&](CudaDevice&, uint64_t) {
    gpu::RowTableOptions rows;
    rows.row_bytes = 64;
    return check_gpu_is_kept<gpu::RowTable>(gpus, rows) +
           check_gpu_is_kept<gpu::ItemTable>(gpus, gpu::ItemTableOptions());
  });
}

}  // namespace
}  // namespace isotherm::split_table_test

int main(int argc, char** argv) {
  using namespace isotherm;
  using namespace split_table_test;
  if (!GpuChecks::has_gpu()) return EXIT_SUCCESS;
  GpuChecks checks(argc, argv, 1 << 16);
  run_on(checks, {0}, ", GPU 0");
  run_on(checks, {0, 0}, ", GPU 0 twice");
  int count = 0;
  cudaGetDeviceCount(&count);
  if (count > 1) {
    run_on(checks, {0, 1}, ", GPUs 0 and 1");
  } else {
    std::printf("GPUs 0 and 1: skipped: one GPU\n");
  }
  return checks.end();
}
