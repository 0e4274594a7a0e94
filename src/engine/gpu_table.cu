#include "engine/gpu_table_state.cuh"
#include "engine/span_requests.h"
#include "isotherm/gpu/table.h"

namespace isotherm::gpu {

int count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

Table::Table(const TableOptions& options) : state_(std::make_unique<State>(options)) {}
Table::~Table() = default;

void Table::get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n, Stream stream) {
  state_->run(gets(keys, values, found, n), stream);
}

void Table::get_pinned(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                       Stream stream) {
  state_->use([&](auto& its) { its.get_pinned(gets(keys, values, found, n), stream); });
}

void Table::put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream) {
  state_->run(puts(keys, values, n), stream);
}

void Table::erase(const uint64_t* keys, uint64_t n, Stream stream) {
  state_->run(erases(keys, n), stream);
}

void Table::run(const TableRequests& requests, Stream stream) { state_->run(requests, stream); }

void Table::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                std::span<uint8_t> found) {
  state_->run_host(gets(keys, values, found));
}

void Table::put(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  state_->run_host(puts(keys, values));
}

void Table::erase(std::span<const uint64_t> keys) {
  state_->run_host(erases(keys.data(), keys.size()));
}

void Table::run_host(const TableRequests& requests) { state_->run_host(requests); }

size_t Table::gpus() const { return state_->gpus(); }
bool Table::peer_access() const { return state_->store().direct(); }

void Table::run(std::span<const TableRequests> slices, std::span<const Stream> streams) {
  state_->use([&](auto& its) { its.run(slices, streams); });
}

void Table::get_pinned(std::span<const uint64_t> keys, std::span<uint64_t> values,
                       std::span<uint8_t> found) {
  state_->use([&](auto& its) { its.get_pinned(gets(keys, values, found)); });
}

TableStats Table::stats() {
  TableStats stats;
  state_->use([&](auto& its) { stats = its.stats(); });
  return stats;
}

}  // namespace isotherm::gpu
