#include <deque>

#include "engine/span_requests.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_setup.cuh"
#include "gpu/sharded_table.h"
#include "isotherm/sharded_device_table.h"

namespace isotherm {
namespace {

// The calling thread has the same GPU at its end.
class KeepGpu {
 public:
  KeepGpu() { cudaGetDevice(&gpu_); }
  ~KeepGpu() { cudaSetDevice(gpu_); }
  KeepGpu(const KeepGpu&) = delete;
  KeepGpu& operator=(const KeepGpu&) = delete;

 private:
  int gpu_ = 0;
};

std::vector<int> all_gpus() {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < gpu_count(); ++gpu) gpus.push_back(gpu);
  // Without any the first one says why.
  return gpus.empty() ? std::vector<int>{0} : gpus;
}

ShardedOptions sharded(const ShardedDeviceTableOptions& options) {
  ShardedOptions sharded;
  sharded.table.gpu_memory = options.gpu_memory;
  sharded.table.seed = seed_or_random(options.hash_seed);
  sharded.express = options.express;
  return sharded;
}

}  // namespace

struct ShardedDeviceTable::State {
  explicit State(const ShardedDeviceTableOptions& options) {
    const KeepGpu keep;
    for (const int gpu : options.devices.empty() ? all_gpus() : options.devices) {
      pointers.push_back(&devices.emplace_back(usable_device(gpu)));
    }
    table.emplace(pointers, sharded(options));
    if (options.expected_entries == 0) return;
    try {
      table->reserve(options.expected_entries);
    } catch (...) {
      table.reset();  // while the GPU is kept
      throw;
    }
  }
  ~State() {
    const KeepGpu keep;
    table.reset();
  }

  template <class Work>
  void use(Work&& work) {
    const KeepGpu keep;
    work(*table);
  }
  void run_host(const DeviceRequests& requests) {
    use([&](auto& its) { its.run_host(requests); });
  }

  std::deque<CudaDevice> devices;
  std::vector<CudaDevice*> pointers;
  std::optional<ShardedTable<CudaDevice>> table;
};

ShardedDeviceTable::ShardedDeviceTable(const ShardedDeviceTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
ShardedDeviceTable::~ShardedDeviceTable() = default;

size_t ShardedDeviceTable::gpus() const { return state_->devices.size(); }
bool ShardedDeviceTable::peer_access() const { return state_->table->direct(); }

void ShardedDeviceTable::run(std::span<const DeviceRequests> slices,
                             std::span<const Stream> streams) {
  state_->use([&](auto& table) { table.run(slices, streams); });
}

void ShardedDeviceTable::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                             std::span<uint8_t> found) {
  state_->run_host(gets(keys, values, found));
}

void ShardedDeviceTable::put(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  state_->run_host(puts(keys, values));
}

void ShardedDeviceTable::erase(std::span<const uint64_t> keys) {
  state_->run_host(erases(keys.data(), keys.size()));
}

void ShardedDeviceTable::run_host(const DeviceRequests& requests) { state_->run_host(requests); }

void ShardedDeviceTable::get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                                    std::span<uint8_t> found) {
  state_->use([&](auto& table) { table.get_pinned(gets(keys, values, found)); });
}

DeviceTableStats ShardedDeviceTable::stats() {
  DeviceTableStats stats;
  state_->use([&](auto& table) { stats = table.stats(); });
  return stats;
}

}  // namespace isotherm
