// DevicePaddedRows: rows of 9 to 4096 bytes on one GPU or more, over a SplitRowStore; a GpuTable
// (engine/gpu_part.h).
//
// Rows of the host go by way of the first GPU: they are copied through pinned memory, some thousand
// at a time, and each is padded there with zeros to a multiple of 16 bytes; replies come back the
// same way. That memory grows to what the longest call needs: at most 32 MiB of the device, beside
// its cap, and 16 MiB of the host.
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
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/split_row_store.h"

namespace isotherm {

template <class Gpu>
class DevicePaddedRows final : public GpuTable {
 public:
  using Device = typename Gpu::Device;
  using Keep = typename Gpu::Keep;
  using Memory = CallMemory<Gpu>;
  static constexpr uint64_t most_row_bytes = 4096;

  explicit DevicePaddedRows(const GpuTableOptions& options)
      : row_bytes_(options.row_bytes),
        stride_((options.row_bytes + 15) / 16 * 16),
        sums_(options.float_sums),
        devices_(devices_of(options.gpus)),
        device_(*devices_.at(0)) {
    if (row_bytes_ > most_row_bytes) {
      throw std::invalid_argument("rows on a GPU have at most 4096 bytes");
    }
    const Keep keep;
    DeviceRowOptions rows;
    rows.row_bytes = static_cast<uint32_t>(stride_);
    rows.index = fixed_options<Gpu>(options);
    rows.slab_bytes = std::min(rows.slab_bytes, Gpu::most_slab_bytes);
    store_.emplace(devices_, rows);
    require_device(device_.enter(), "choose the GPU");
    stream_.emplace(device_);
    if (options.expected_entries != 0) store_->reserve(options.expected_entries);
  }
  ~DevicePaddedRows() override {
    const Keep keep;
    device_.enter();
    stage_.reset();
    stream_.reset();
    store_.reset();
  }

  DeviceTableStats stats() override {
    const Keep keep;
    return store_->stats();
  }

  RowHandle::Result run_host(const RowRequests& requests) override {
    const Keep keep;
    const std::lock_guard lock(mutex_);
    require_device(device_.enter(), "choose the GPU");
    const bool adds = requests.op == DeviceOp::add;
    if (requests.op == DeviceOp::compare_and_swap || (adds && !sums_)) {
      return HostUpdate(requests, row_bytes_).run([&](const RowRequests& its) { in_chunks(its); });
    }
    return in_chunks(requests);
  }

  uint64_t run(const GpuCall& call) override {
    const Keep keep;
    const DeviceCall<Gpu> its(*devices_.at(call.place), call);
    if (its.rows == 0) return 0;
    if (its.requests.op == DeviceOp::get) {
      get(its);
      return 0;
    }
    const std::lock_guard lock(mutex_);
    const uint64_t before = call.count_refused ? store_->shortages() : 0;
    require_device(its.device.enter(), "choose the GPU");  // others were asked
    std::optional<Memory> own;
    uint8_t* found = its.requests.found;
    if (found == nullptr) {
      own.emplace(its.device, its.stream, its.rows);
      found = own->template as<uint8_t>();
    }
    write(its, found);
    const bool is_short = call.count_refused && store_->shortages() != before;
    require_device(its.device.enter(), "choose the GPU");
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
  // Keys, rows, replies, and a second column of rows, here and on the device.
  struct Stage {
    Stage(Device& device, uint64_t most, uint64_t stride)
        : rows(most),
          memory(device, 0),
          at(memory, most * (sizeof(uint64_t) + 2 * stride + 1)),
          host(device, most * (sizeof(uint64_t) + stride + 1)) {
      if (at.empty()) throw std::bad_alloc();
    }
    uint64_t rows;
    DeviceMemory<Device> memory;
    DeviceArray<Device, char> at;
    PinnedBlock<Device> host;
  };
  // A column of the stage; rows come first, since they are aligned.
  char* on_device(uint64_t column) const {
    return stage_->at.data() + column * stage_->rows * stride_;
  }
  uint64_t* device_keys() const { return reinterpret_cast<uint64_t*>(on_device(2)); }
  uint8_t* device_found() const { return reinterpret_cast<uint8_t*>(device_keys() + stage_->rows); }
  char* host_rows() const { return static_cast<char*>(stage_->host.data()); }
  char* host_keys() const { return host_rows() + stage_->rows * stride_; }
  uint8_t* host_found() const {
    return reinterpret_cast<uint8_t*>(host_keys() + stage_->rows * sizeof(uint64_t));
  }

  static std::vector<Device*> devices_of(const std::vector<int>& gpus) {
    std::vector<Device*> devices;
    for (const int gpu : gpus) devices.push_back(&Gpu::device(gpu));
    return devices;
  }

  void get(const DeviceCall<Gpu>& its) {
    const RowRequests& requests = its.requests;
    store_->run({RowVerb::get, its.rows, requests.keys.data(), requests.rows_out, requests.found},
                its.call.place, its.stream);
  }

  void write(const DeviceCall<Gpu>& its, uint8_t* found) {
    const RowRequests& requests = its.requests;
    const uint64_t bytes = its.rows * stride_;
    const auto run = [&](RowVerb verb, const void* rows, uint8_t* replies) {
      store_->run({verb, its.rows, requests.keys.data(), const_cast<void*>(rows), replies},
                  its.call.place, its.stream);
    };
    if (requests.op == DeviceOp::put) return run(RowVerb::put, requests.rows, found);
    if (requests.op == DeviceOp::erase) return run(RowVerb::erase, nullptr, found);
    std::optional<Memory> own;
    void* rows = requests.rows_out;
    if (rows == nullptr) {
      own.emplace(its.device, its.stream, bytes);
      rows = own->template as<void>();
    }
    if (requests.op == DeviceOp::put_if_absent) {
      if (rows != requests.rows) {
        require_device(its.device.copy(its.stream, rows, requests.rows, bytes), "copy rows");
      }
      return run(RowVerb::get_or_insert, rows, found);
    }
    if (requests.op != DeviceOp::add || !sums_) {
      throw std::invalid_argument("no operation of rows in device memory");
    }
    require_device(its.device.clear(its.stream, rows, bytes), "clear rows");
    run(RowVerb::get_or_insert, rows, found);
    run(RowVerb::accumulate, requests.rows, nullptr);
  }

  RowHandle::Result in_chunks(const RowRequests& requests) {
    constexpr uint64_t most_bytes = uint64_t{16} << 20;
    const uint64_t rows = requests.keys.size();
    if (rows == 0) return {};
    const uint64_t most = std::min(std::bit_ceil(rows), std::bit_floor(most_bytes / stride_));
    if (!stage_ || stage_->rows < most) {
      stage_.reset();
      stage_.emplace(device_, most, stride_);
    }
    RowHandle::Result all;
    for (uint64_t first = 0; first < rows; first += stage_->rows) {
      const uint64_t some = std::min(rows - first, stage_->rows);
      const RowHandle::Result its = chunk(requests, first, some);
      all.found += its.found;
      all.refused += its.refused;
    }
    return all;
  }

  RowHandle::Result chunk(const RowRequests& requests, uint64_t first, uint64_t rows) {
    std::memcpy(host_keys(), requests.keys.data() + first, rows * sizeof(uint64_t));
    copy_in(device_keys(), host_keys(), rows * sizeof(uint64_t));
    const bool replies_have_rows = run_chunk(requests, first, rows);
    require_device(device_.to_host(stream(), host_found(), device_found(), rows), "read replies");
    const bool wants_rows = requests.rows_out != nullptr && replies_have_rows;
    if (wants_rows) {
      require_device(device_.to_host(stream(), host_rows(), on_device(0), rows * stride_),
                     "read rows");
    }
    require_device(device_.synchronize(stream()), "wait for replies");
    for (uint64_t i = 0; wants_rows && i < rows; ++i) {
      if (host_found()[i] != 1) continue;
      std::memcpy(static_cast<char*>(requests.rows_out) + (first + i) * row_bytes_,
                  host_rows() + i * stride_, row_bytes_);
    }
    if (requests.found != nullptr) std::memcpy(requests.found + first, host_found(), rows);
    return count_replies(host_found(), rows);
  }

  // Whether the first column of rows has those of the keys then.
  bool run_chunk(const RowRequests& requests, uint64_t first, uint64_t rows) {
    char* const own = on_device(0);
    const auto run = [&](RowVerb verb, void* given, uint8_t* found) {
      store_->run({verb, rows, device_keys(), given, found}, stream());
    };
    switch (requests.op) {
      case DeviceOp::get:
        run(RowVerb::get, requests.rows_out != nullptr ? own : nullptr, device_found());
        return true;
      case DeviceOp::put:
        rows_in(0, requests.rows, first, rows);
        run(RowVerb::put, own, device_found());
        return false;
      case DeviceOp::erase:
        run(RowVerb::erase, nullptr, device_found());
        return false;
      case DeviceOp::put_if_absent:
        rows_in(0, requests.rows, first, rows);
        run(RowVerb::get_or_insert, own, device_found());
        return true;
      default:
        require_device(device_.clear(stream(), own, rows * stride_), "clear rows");
        run(RowVerb::get_or_insert, own, device_found());
        rows_in(1, requests.rows, first, rows);
        run(RowVerb::accumulate, on_device(1), nullptr);
        return false;
    }
  }

  void rows_in(uint64_t column, const void* from, uint64_t first, uint64_t rows) {
    const char* const given = static_cast<const char*>(from) + first * row_bytes_;
    if (stride_ == row_bytes_) {
      std::memcpy(host_rows(), given, rows * stride_);
    } else {
      std::memset(host_rows(), 0, rows * stride_);
      for (uint64_t i = 0; i < rows; ++i) {
        std::memcpy(host_rows() + i * stride_, given + i * row_bytes_, row_bytes_);
      }
    }
    copy_in(on_device(column), host_rows(), rows * stride_);
  }
  void copy_in(void* to, const void* from, uint64_t bytes) {
    require_device(device_.to_device(stream(), to, from, bytes), "copy rows");
  }
  typename Device::Stream stream() const { return stream_->get(); }

  const uint64_t row_bytes_;
  const uint64_t stride_;
  const bool sums_;
  const std::vector<Device*> devices_;
  Device& device_;    // the first
  std::mutex mutex_;  // of all but gets on device pointers
  std::optional<SplitRowStore<Device>> store_;
  std::optional<DeviceStream<Device>> stream_;  // of calls from the host
  std::optional<Stage> stage_;
};

}  // namespace isotherm
