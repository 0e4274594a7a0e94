#include <stdexcept>

#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/rows/split_row_store.h"
#include "isotherm/device_row_table.h"

namespace isotherm {
namespace {

DeviceRowOptions checked(const DeviceRowTableOptions& options) {
  if (options.row_bytes == 0 || options.row_bytes % 16 != 0 || options.row_bytes > 4096) {
    throw std::invalid_argument("row_bytes must be a multiple of 16 from 16 to 4096");
  }
  DeviceRowOptions checked;
  checked.row_bytes = options.row_bytes;
  checked.index.gpu_memory = options.gpu_memory;
  checked.index.seed = seed_or_random(options.hash_seed);
  return checked;
}

}  // namespace

struct DeviceRowTable::State : StoreOnGpus<SplitRowStore<CudaDevice>> {
  explicit State(const DeviceRowTableOptions& options)
      : StoreOnGpus(options.devices.empty() ? all_gpus() : options.devices, checked(options),
                    options.expected_entries) {}

  void run(const RowCall& call, Stream stream, uint32_t place) {
    use([&](auto& its) { its.run(call, place, stream); });
  }
};

DeviceRowTable::DeviceRowTable(const DeviceRowTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
DeviceRowTable::~DeviceRowTable() = default;

void DeviceRowTable::get(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n,
                         Stream stream, uint32_t place) {
  state_->run({RowVerb::get, n, keys, rows, found}, stream, place);
}

void DeviceRowTable::put(const uint64_t* keys, const void* rows, uint8_t* stored, uint64_t n,
                         Stream stream, uint32_t place) {
  state_->run({RowVerb::put, n, keys, const_cast<void*>(rows), stored}, stream, place);
}

void DeviceRowTable::erase(const uint64_t* keys, uint64_t n, Stream stream, uint32_t place) {
  state_->run({RowVerb::erase, n, keys, nullptr, nullptr}, stream, place);
}

void DeviceRowTable::get_or_insert(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n,
                                   Stream stream, uint32_t place) {
  state_->run({RowVerb::get_or_insert, n, keys, rows, found}, stream, place);
}

void DeviceRowTable::accumulate(const uint64_t* keys, const float* deltas, uint8_t* found,
                                uint64_t n, Stream stream, uint32_t place) {
  state_->run({RowVerb::accumulate, n, keys, const_cast<float*>(deltas), found}, stream, place);
}

DeviceTableStats DeviceRowTable::stats() {
  return state_->use([](auto& its) { return its.stats(); });
}

}  // namespace isotherm
