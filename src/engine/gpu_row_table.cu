#include <stdexcept>

#include "engine/span_requests.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/rows/row_call.h"
#include "gpu/rows/split_row_store.h"
#include "isotherm/gpu/row_table.h"
#include "isotherm/row_table.h"

namespace isotherm::gpu {
namespace {

DeviceRowOptions checked(const RowTableOptions& options) {
  const uint64_t bytes = options.row_bytes;
  if (bytes == 0 || bytes % 16 != 0 || bytes > isotherm::RowTableOptions::most_row_bytes) {
    throw std::invalid_argument("row_bytes must be a multiple of 16 from 16 to 1048576");
  }
  if (options.scores > RowScores::use) throw std::invalid_argument("scores is none of RowScores");
  DeviceRowOptions checked;
  checked.row_bytes = options.row_bytes;
  checked.index.gpu_memory = options.gpu_memory;
  checked.index.seed = seed_or_random(options.hash_seed);
  checked.host_memory = options.pinned_row_memory;
  checked.most_rows = options.max_entries;
  checked.scores = options.scores;
  checked.evicts = options.evict;
  return checked;
}

}  // namespace

struct RowTable::State : StoreOnGpus<SplitRowStore<CudaDevice>> {
  explicit State(const RowTableOptions& options)
      : StoreOnGpus(options.devices.empty() ? all_gpus() : options.devices, checked(options),
                    options.expected_entries),
        row_bytes(options.row_bytes) {}

  void run(const RowRequests& requests, Stream stream) {
    use([&](auto& its) { its.run(requests, stream); });
  }
  void run_host(const RowRequests& requests) {
    if (requests.n != 0 && requests.rows == nullptr && sends_rows(requests)) {
      throw std::invalid_argument("the operation needs rows");
    }
    use([&](auto& its) { its.run_host(requests); });
  }
  void run_host(RowOp op, std::span<const uint64_t> keys, std::span<const std::byte> rows,
                std::span<uint8_t> found) {
    require_lengths(op == RowOp::erase || rows.size() == keys.size() * row_bytes);
    require_lengths(found.empty() || found.size() == keys.size());
    run_host({op, keys.size(), keys.data(), const_cast<std::byte*>(rows.data()),
              found.empty() ? nullptr : found.data()});
  }

  const uint64_t row_bytes;
};

RowTable::RowTable(const RowTableOptions& options) : state_(std::make_unique<State>(options)) {}
RowTable::~RowTable() = default;

void RowTable::get(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n, Stream stream) {
  state_->run({RowOp::get, n, keys, rows, found}, stream);
}

void RowTable::put(const uint64_t* keys, const void* rows, uint64_t n, Stream stream) {
  state_->run({RowOp::put, n, keys, const_cast<void*>(rows), nullptr}, stream);
}

void RowTable::erase(const uint64_t* keys, uint64_t n, Stream stream) {
  state_->run({RowOp::erase, n, keys, nullptr, nullptr}, stream);
}

void RowTable::get_or_insert(const uint64_t* keys, void* rows, uint8_t* found, uint64_t n,
                             Stream stream) {
  state_->run({RowOp::get_or_insert, n, keys, rows, found}, stream);
}

void RowTable::accumulate(const uint64_t* keys, const float* deltas, uint64_t n, Stream stream) {
  state_->run({RowOp::accumulate, n, keys, const_cast<float*>(deltas), nullptr}, stream);
}

void RowTable::run(const RowRequests& requests, Stream stream, uint32_t place) {
  state_->use([&](auto& its) { its.run(requests, place, stream); });
}

void RowTable::get(std::span<const uint64_t> keys, std::span<std::byte> rows,
                   std::span<uint8_t> found) {
  require_lengths(keys.size() == found.size());
  state_->run_host(RowOp::get, keys, rows, found);
}

void RowTable::put(std::span<const uint64_t> keys, std::span<const std::byte> rows) {
  state_->run_host(RowOp::put, keys, rows, {});
}

void RowTable::erase(std::span<const uint64_t> keys) {
  state_->run_host(RowOp::erase, keys, {}, {});
}

void RowTable::get_or_insert(std::span<const uint64_t> keys, std::span<std::byte> rows,
                             std::span<uint8_t> found) {
  require_lengths(keys.size() == found.size());
  state_->run_host(RowOp::get_or_insert, keys, rows, found);
}

void RowTable::accumulate(std::span<const uint64_t> keys, std::span<const float> deltas) {
  state_->run_host(RowOp::accumulate, keys, std::as_bytes(deltas), {});
}

void RowTable::run_host(const RowRequests& requests) { state_->run_host(requests); }

uint64_t RowTable::export_rows(uint64_t cursor, RowExport& chunk, Stream stream) {
  return state_->use([&](auto& its) { return its.export_rows(cursor, chunk, stream); });
}

uint64_t RowTable::export_rows_host(uint64_t cursor, RowExport& chunk) {
  return state_->use([&](auto& its) { return its.export_rows_host(cursor, chunk); });
}

TableStats RowTable::stats() {
  return state_->use([](auto& its) { return its.stats(); });
}

}  // namespace isotherm::gpu
