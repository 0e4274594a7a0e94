// DevicePaddedRows: rows of 9 to 4096 bytes, or of any size up to that where rows are evicted, on
// one GPU or more, over a SplitRowStore; a GpuTable (engine/gpu_part.h).
//
// Rows of the host are padded with zeros to a multiple of 16 bytes on their way
// (gpu/rows/host_rows.h).
//
// Threads. Any; all calls but gets on device pointers take turns. Limits. add of missing keys first
// inserts rows of zeros, so it takes the time of three calls.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/device_calls.h"
#include "gpu/rows/split_row_store.h"
#include "isotherm/gpu/common.h"
#include "isotherm/row_table.h"

namespace isotherm {

template <class Gpu>
class DevicePaddedRows final : public GpuTable {
 public:
  using Device = typename Gpu::Device;
  using Keep = typename Gpu::Keep;
  using Memory = CallMemory<Gpu>;

  explicit DevicePaddedRows(const GpuTableOptions& options)
      : row_bytes_(options.row_bytes),
        stride_((options.row_bytes + 15) / 16 * 16),
        sums_(options.float_sums),
        evicts_(options.evict_by != RowScores::none),
        devices_(devices_of(options.gpus)) {
    if (row_bytes_ > RowTableOptions::most_row_bytes) {
      throw std::invalid_argument("rows on a GPU have at most 1048576 bytes");
    }
    const Keep keep;
    DeviceRowOptions rows;
    rows.row_bytes = static_cast<uint32_t>(stride_);
    rows.index = fixed_options<Gpu>(options);
    rows.slab_bytes = std::min(rows.slab_bytes, Gpu::most_slab_bytes);
    rows.host_memory = options.host_memory;
    rows.scores = options.evict_by;
    rows.evicts = evicts_;
    store_.emplace(devices_, rows);
    uint64_t expected = options.expected_entries;
    if (evicts_ && options.gpu_memory != 0) {  // the index is not to take the room of the rows
      constexpr uint64_t bytes_beside = 64;
      const uint64_t all = options.gpu_memory * options.gpus.size() + options.host_memory;
      expected = std::min(expected, all / 2 / (stride_ + bytes_beside));
    }
    if (expected != 0) store_->reserve(expected);
  }
  ~DevicePaddedRows() override {
    const Keep keep;
    store_.reset();
  }

  gpu::TableStats stats() override {
    const Keep keep;
    return store_->stats();
  }

  RowHandle::Result run_host(const RowRequests& requests) override {
    const Keep keep;
    const std::lock_guard lock(mutex_);
    const bool adds = requests.op == TableOp::add;
    if (requests.op == TableOp::compare_and_swap || (adds && !sums_)) {
      return HostUpdate(requests, row_bytes_).run([&](const RowRequests& its) { in_parts(its); });
    }
    return in_parts(requests);
  }

  uint64_t run(const GpuCall& call) override {
    const Keep keep;
    const DeviceCall<Gpu> its(*devices_.at(call.place), call);
    if (its.rows == 0) return 0;
    if (its.requests.op == TableOp::get) {
      get(its);
      return 0;
    }
    const std::lock_guard lock(mutex_);
    const uint64_t before = call.count_refused ? store_->shortages() : 0;
    std::optional<Memory> own;
    uint8_t* found = its.requests.found;
    if (found == nullptr) {
      own.emplace(its.device, its.stream, its.rows);
      found = own->template as<uint8_t>();
    }
    write(its, found);
    const bool is_short = call.count_refused && store_->shortages() != before;
    const uint64_t refused = is_short ? its.count(found, reply_retry) : 0;
    if (its.requests.found != nullptr) its.make_mask(found, nullptr);
    return refused;
  }

  New put_new(std::span<const uint64_t> /*keys*/, uint64_t* /*to*/) override {
    throw std::invalid_argument("values have 8 bytes here");
  }

  // The keys of a step, and then the rows of those that are still there.
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit) override {
    const Keep keep;
    if (evicts_) return export_rows(cursor, count, visit);
    std::vector<uint64_t> keys;
    const uint64_t next = store_->scan(cursor, count, [&](uint64_t key) { keys.push_back(key); });
    std::vector<char> rows(keys.size() * row_bytes_);
    std::vector<uint8_t> found(keys.size());
    RowRequests gets;
    gets.keys = keys;
    gets.rows_out = rows.data();
    gets.found = found.data();
    run_host(gets);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (found[i] == 1) visit(keys[i], rows.data() + i * row_bytes_);
    }
    return next;
  }

 private:
  static std::vector<Device*> devices_of(const std::vector<int>& gpus) {
    std::vector<Device*> devices;
    for (const int gpu : gpus) devices.push_back(&Gpu::device(gpu));
    return devices;
  }

  // A step that is no use of the rows it visits.
  uint64_t export_rows(uint64_t cursor, uint64_t count,
                       const std::function<void(uint64_t key, const void* row)>& visit) {
    constexpr uint64_t most = 4096;
    gpu::RowExport chunk;
    chunk.capacity = std::clamp<uint64_t>(count, 64, most);
    std::vector<uint64_t> keys(chunk.capacity);
    std::vector<char> rows(chunk.capacity * stride_);
    chunk.keys = keys.data();
    chunk.rows = rows.data();
    uint64_t visited = 0;
    do {
      cursor = store_->export_rows_host(cursor, chunk);
      for (uint64_t i = 0; i < chunk.count; ++i) visit(keys[i], rows.data() + i * stride_);
      visited += chunk.count;
    } while (cursor != 0 && visited < count);
    return cursor;
  }

  void get(const DeviceCall<Gpu>& its) {
    const RowRequests& requests = its.requests;
    store_->run({gpu::RowOp::get, its.rows, requests.keys.data(), requests.rows_out, requests.found,
                 requests.scores},
                its.call.place, its.stream);
  }

  void write(const DeviceCall<Gpu>& its, uint8_t* found) {
    const RowRequests& requests = its.requests;
    const uint64_t bytes = its.rows * stride_;
    const auto run = [&](gpu::RowOp verb, const void* rows, uint8_t* replies,
                         uint64_t* scores = nullptr) {
      store_->run({verb, its.rows, requests.keys.data(), const_cast<void*>(rows), replies, scores},
                  its.call.place, its.stream);
    };
    if (requests.op == TableOp::put) {
      return run(gpu::RowOp::put, requests.rows, found, requests.scores);
    }
    if (requests.op == TableOp::erase) return run(gpu::RowOp::erase, nullptr, found);
    std::optional<Memory> own;
    void* rows = requests.rows_out;
    if (rows == nullptr) {
      own.emplace(its.device, its.stream, bytes);
      rows = own->template as<void>();
    }
    if (requests.op == TableOp::put_if_absent) {
      if (rows != requests.rows) {
        require_device(its.device.copy(its.stream, rows, requests.rows, bytes), "copy rows");
      }
      return run(gpu::RowOp::get_or_insert, rows, found);
    }
    if (requests.op != TableOp::add || !sums_) {
      throw std::invalid_argument("no operation of rows in device memory");
    }
    require_device(its.device.clear(its.stream, rows, bytes), "clear rows");
    run(gpu::RowOp::get_or_insert, rows, found);
    run(gpu::RowOp::accumulate, requests.rows, nullptr);
  }

  RowHandle::Result in_parts(const RowRequests& requests) {
    RowHandle::Result all;
    const uint64_t rows = requests.keys.size();
    if (requests.op == TableOp::add) {
      // Rows of zeros first, which no reply shows.
      all =
          on_host({gpu::RowOp::get_or_insert, rows, requests.keys.data(), nullptr, requests.found});
      on_host({gpu::RowOp::accumulate, rows, requests.keys.data(), const_cast<void*>(requests.rows),
               nullptr});
      return all;
    }
    gpu::RowRequests call{gpu::RowOp::get,   rows,           requests.keys.data(),
                          requests.rows_out, requests.found, requests.scores};
    if (requests.op == TableOp::put_if_absent) return insert(requests, call);
    if (requests.op == TableOp::erase) call.op = gpu::RowOp::erase;
    if (requests.op == TableOp::put) {
      call.op = gpu::RowOp::put;
      call.rows = const_cast<void*>(requests.rows);
    }
    return on_host(call);
  }

  // Rows go in and come back in the same columns, which are not the caller's.
  RowHandle::Result insert(const RowRequests& requests, gpu::RowRequests call) {
    const auto* const given = static_cast<const char*>(requests.rows);
    std::vector<char> rows(given, given + call.n * row_bytes_);
    std::vector<uint8_t> found(call.n);
    call.op = gpu::RowOp::get_or_insert;
    call.rows = rows.data();
    call.found = found.data();
    const RowHandle::Result all = on_host(call);
    if (requests.found != nullptr) std::copy(found.begin(), found.end(), requests.found);
    for (uint64_t i = 0; requests.rows_out != nullptr && i < call.n; ++i) {
      if (found[i] != 1) continue;
      std::memcpy(static_cast<char*>(requests.rows_out) + i * row_bytes_,
                  rows.data() + i * row_bytes_, row_bytes_);
    }
    return all;
  }

  RowHandle::Result on_host(const gpu::RowRequests& call) {
    RowHandle::Result all;
    store_->run_host(call, row_bytes_, [&](const uint8_t* found, uint64_t rows) {
      const RowHandle::Result its = count_replies(found, rows);
      all.found += its.found;
      all.refused += its.refused;
    });
    return all;
  }

  const uint64_t row_bytes_;
  const uint64_t stride_;
  const bool sums_;
  const bool evicts_;
  const std::vector<Device*> devices_;
  std::mutex mutex_;  // of all but gets on device pointers
  std::optional<SplitRowStore<Device>> store_;
};

}  // namespace isotherm
