#include <stdexcept>

#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/rows/device_row_store.h"
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

struct DeviceRowTable::State : StoreOnGpu<DeviceRowStore<CudaDevice>> {
  explicit State(const DeviceRowTableOptions& options)
      : StoreOnGpu(options.device, checked(options), options.expected_entries) {}
};

DeviceRowTable::DeviceRowTable(const DeviceRowTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
DeviceRowTable::~DeviceRowTable() = default;

void DeviceRowTable::get(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n,
                         Stream stream) {
  state_->use([&](auto& its) { its.get(keys, static_cast<Pair*>(rows), found, n, stream); });
}

void DeviceRowTable::put(const uint64_t* keys, const void* rows, uint8_t* stored, uint64_t n,
                         Stream stream) {
  state_->use([&](auto& its) { its.put(keys, static_cast<const Pair*>(rows), stored, n, stream); });
}

void DeviceRowTable::erase(const uint64_t* keys, uint64_t n, Stream stream) {
  state_->use([&](auto& its) { its.erase(keys, n, stream); });
}

void DeviceRowTable::get_or_insert(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n,
                                   Stream stream) {
  state_->use(
      [&](auto& its) { its.get_or_insert(keys, static_cast<Pair*>(rows), found, n, stream); });
}

void DeviceRowTable::accumulate(const uint64_t* keys, const float* deltas, uint8_t* found,
                                uint64_t n, Stream stream) {
  state_->use([&](auto& its) { its.accumulate(keys, deltas, found, n, stream); });
}

DeviceTableStats DeviceRowTable::stats() {
  return state_->use([](auto& its) { return its.stats(); });
}

}  // namespace isotherm
