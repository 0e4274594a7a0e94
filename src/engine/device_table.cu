#include "engine/device_table_state.cuh"
#include "engine/span_requests.h"
#include "isotherm/device_table.h"

namespace isotherm {

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

DeviceTable::DeviceTable(const DeviceTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
DeviceTable::~DeviceTable() = default;

void DeviceTable::get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                      Stream stream) {
  state_->run(gets(keys, values, found, n), stream);
}

void DeviceTable::get_pinned(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                             Stream stream) {
  state_->use([&](auto& its) { its.get_pinned(gets(keys, values, found, n), stream); });
}

void DeviceTable::put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream) {
  state_->run(puts(keys, values, n), stream);
}

void DeviceTable::erase(const uint64_t* keys, uint64_t n, Stream stream) {
  state_->run(erases(keys, n), stream);
}

void DeviceTable::run(const DeviceRequests& requests, Stream stream) {
  state_->run(requests, stream);
}

void DeviceTable::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                      std::span<uint8_t> found) {
  state_->run_host(gets(keys, values, found));
}

void DeviceTable::put(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  state_->run_host(puts(keys, values));
}

void DeviceTable::erase(std::span<const uint64_t> keys) {
  state_->run_host(erases(keys.data(), keys.size()));
}

void DeviceTable::run_host(const DeviceRequests& requests) { state_->run_host(requests); }

size_t DeviceTable::gpus() const { return state_->gpus(); }
bool DeviceTable::peer_access() const { return state_->store().direct(); }

void DeviceTable::run(std::span<const DeviceRequests> slices, std::span<const Stream> streams) {
  state_->use([&](auto& its) { its.run(slices, streams); });
}

void DeviceTable::get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                             std::span<uint8_t> found) {
  state_->use([&](auto& its) { its.get_pinned(gets(keys, values, found)); });
}

DeviceTableStats DeviceTable::stats() {
  DeviceTableStats stats;
  state_->use([&](auto& its) { stats = its.stats(); });
  return stats;
}

}  // namespace isotherm
